"""From a name in a config to a network whose first weights depend on the seed alone (docs/method.md 12)."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from prunefl.config import Config
from prunefl.config.networks import find_network
from prunefl.core.randomness import derived_seed
from prunefl.models.chains import conv2, lenet300100, vgg11
from prunefl.models.mobilenet import mobilenetv3_small
from prunefl.models.resnet import resnet18
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import own_function

BUILDERS: Mapping[str, Callable[..., nn.Module]] = {
    "conv2": conv2,
    "vgg11": vgg11,
    "resnet18": resnet18,
    "mobilenetv3_small": mobilenetv3_small,
    "lenet300100": lenet300100,
}


def build_configured(
    config: Config, classes: int, input_shape: tuple[int, ...], check_it: bool = True
) -> nn.Module:
    """Return the network that the config names, with the first weights that its seed gives."""
    seed = derived_seed(first_seed(config), "weights")
    model = build(config.model.name, classes=classes, input_shape=input_shape, seed=seed, check_it=check_it)
    if config.model.init == "authors":
        slope = AUTHORS_LAST_SLOPE.get(config.model.name, 0.0)
        draw_as_authors(model, derived_seed(first_seed(config), "authors' weights"), slope)
    return model


AUTHORS_LAST_SLOPE = {"vgg11": 1.5}
"""Slope of the leaky rectifier for which the authors draw a network's last layer, where it is not the usual."""


def draw_as_authors(model: nn.Module, seed: int, last_slope: float = 0.0) -> None:
    """Draw first weights as the code of the paper's authors does.

    Convolutions and biases as torch does by default, fully connected layers by their outputs: an output layer of 62 has
    a standard deviation of 0.18, six times that of ours.

    Args:
        last_slope: of the last fully connected layer, as `kaiming_uniform_` takes it.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            slope = last_slope if layer is layers[-1] else 0.0
            nn.init.kaiming_uniform_(layer.weight, a=slope, mode="fan_out", generator=generator)
        else:
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
        if layer.bias is not None:
            bound = 1 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def first_seed(config: Config) -> int:
    """Return the seed of the first weights: the run's own, unless a lottery ticket asks for another's."""
    return config.run.seed if config.model.init_seed < 0 else config.model.init_seed


def build(
    spec: str,
    *,
    classes: int,
    input_shape: tuple[int, ...],
    seed: int,
    check_it: bool = True,
    **options: Any,
) -> nn.Module:
    """Return a new network for these images; the same seed gives the same bits.

    Args:
        spec: a name in BUILDERS, or `package.module:function`. The function is given whichever of `classes`,
            `channels`, `size` and `input_shape` it names, and returns an nn.Module.
        input_shape: shape of one sample, (channels, height, width).
        check_it: whether it has to take images and give one logit a class; not so for tokens and other tasks.
        options: further arguments of the function.
    """
    if ":" in spec:
        function = own_function("model.name", spec)
    else:
        function = BUILDERS[find_network("model.name", spec, own=" or package.module:function")]
    offered = {
        "classes": classes,
        "input_shape": input_shape,
        "channels": input_shape[0] if input_shape else 1,
        "size": input_shape[-1] if input_shape else 1,
    }
    arguments = {**_accepted(function, offered), **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model = function(**arguments)
        except TypeError as error:
            raise PruneFLError(
                f"model.name={spec!r}, could not be called with {arguments}: {error}"
            ) from error
    if not isinstance(model, nn.Module):
        raise PruneFLError(f"model.name={spec!r}, must return an nn.Module, got {type(model).__name__}")
    if check_it:
        check(model, classes=classes, input_shape=input_shape, name=spec)
    return model


def check(model: nn.Module, *, classes: int, input_shape: tuple[int, ...], name: str = "own") -> None:
    """Refuse a model that cannot take such samples or does not give one logit per class."""
    training = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            output = model.eval()(torch.zeros(2, *input_shape))
    # a network of the user's own may raise anything
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise PruneFLError(
            f"model.name={name!r}, must take samples of shape {tuple(input_shape)}: "
            f"{type(error).__name__}: {reason}"
        ) from error
    finally:
        for module, mode in training.items():
            module.training = mode
    if not isinstance(output, Tensor) or tuple(output.shape) != (2, classes):
        given = tuple(output.shape[1:]) if isinstance(output, Tensor) else type(output).__name__
        if isinstance(output, Tensor) and output.shape[:1] != (2,):
            raise PruneFLError(
                f"model.name={name!r}, must give a row for each sample, gives {tuple(output.shape)} for two"
            )
        raise PruneFLError(
            f"model.name={name!r}, must give {classes} logits a sample as the data has {classes} "
            f"classes, gives {given}"
        )


def _accepted(function: Callable[..., nn.Module], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return those offered arguments that the function names."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in offered.items() if name in names}
