"""From a torch module to what the core must know of it; a network that would not train as it should is refused."""

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from typing import Any

import torch
from torch import Tensor, nn

from prunefl.core.masks import Masks
from prunefl.core.network import Network, Template
from prunefl.core.state import SparseState
from prunefl.local.backend import Inputs
from prunefl.local.torch_backend.inputs import as_torch_inputs, call
from prunefl.local.torch_backend.state import state_of
from prunefl.system.errors import PruneFLError


def network_of(
    model: nn.Module,
    input_shape: Sequence[int],
    classes: int,
    exclude: Iterable[str] = ("*downsample*",),
    example: Inputs | None = None,
) -> Network:
    """Return the facts about a module with its first weights.

    Args:
        exclude: shell patterns of names that are never pruned.
        example: the input of one sample, where it is not a float array of this shape.
    """
    names = prunable_names(model, exclude)
    if not names:
        raise PruneFLError("the model has no Linear or Conv2d weight to prune (pruning.exclude leaves none)")
    every = count_uses(model, input_shape, prunable_names(model, ()), example)
    # a layer that is not called itself, such as that of nn.MultiheadAttention, is left whole
    uses = {name: every[name] for name in names if every[name]}
    if not uses:
        raise PruneFLError("the model calls no Linear or Conv2d layer that could be pruned")
    _refuse_unusual(model, uses)
    template = template_of(model, uses)
    values = {name: tensor.numpy() for name, tensor in state_of(model).items()}
    first = SparseState.from_dense({n: values[n] for n in template.names}, Masks.full(template.layers))
    positions = {name: sum(each) for name, each in every.items() if each}
    pruned, whole = (
        {name: count for name, count in positions.items() if (name in uses) is wanted}
        for wanted in (True, False)
    )
    return Network(
        template, first, pruned, tuple(input_shape), classes, model, example, whole_positions=whole
    )


def template_of(model: nn.Module, prunable: Iterable[str]) -> Template:
    """Return the template of a model: its parameters and floating-point buffers."""
    parameters = {name for name, _ in model.named_parameters()}
    # one tensor under two names is exchanged once
    again = {name for name, _ in model.named_parameters(remove_duplicate=False)} - parameters
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point() and name not in again
    }
    return Template(
        tuple(shapes), tuple(shapes.values()), frozenset(prunable), frozenset(shapes) - parameters
    )


def prunable_names(model: nn.Module, exclude: Iterable[str] = ("*downsample*",)) -> list[str]:
    """Return the names of the weights of Linear and Conv2d layers that can be pruned, in the model's order.

    Those cannot whose layer computes in a way of its own, or whose weight is frozen, shared or made of others.
    """
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    free = {name for name, p in model.named_parameters() if p.requires_grad and uses[id(p)] == 1}
    paths = [path for path, module in model.named_modules() if _computes_plainly(module)]
    names = [f"{path}.weight" if path else "weight" for path in paths]
    return [n for n in names if n in free and not any(fnmatch(n, pattern) for pattern in exclude)]


def _computes_plainly(module: nn.Module) -> bool:
    """Return whether a layer is torch's Linear or Conv2d, or a subclass that computes like it."""
    if isinstance(module, nn.Conv2d):
        kind = type(module)
        return kind.forward is nn.Conv2d.forward and kind._conv_forward is nn.Conv2d._conv_forward
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward


def count_uses(
    model: nn.Module, input_shape: Sequence[int], names: Iterable[str], example: Inputs | None = None
) -> dict[str, list[int]]:
    """Return for each named weight the output positions of a sample of every time that its layer is called.

    A position count is 1 for a linear layer and height × width of the output for a convolution, whatever its stride
    and groups: a group's weight is one that exists for fewer channels.
    """
    layers = {f"{path}.weight" if path else "weight": module for path, module in model.named_modules()}
    found: dict[str, list[int]] = {name: [] for name in names}

    def hook(name: str) -> Any:
        def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            spatial = output.shape[2:] if isinstance(module, nn.Conv2d) else output.shape[1:-1]
            found[name].append(spatial.numel())

        return layers[name].register_forward_hook(add)

    modes = {module: module.training for module in model.modules()}
    handles = [hook(name) for name in found]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            inputs = torch.zeros(1, *input_shape) if example is None else as_torch_inputs(example)
            call(model.eval(), inputs)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    return found


def _refuse_unusual(model: nn.Module, uses: dict[str, list[int]]) -> None:
    """Refuse a network whose training would not be what docs/method.md says, with the remedy."""
    for name, used in uses.items():
        if len(used) != 1:
            raise PruneFLError(
                f"the layer of {name} is called {len(used)} times for a batch, to be pruned it must be called once: "
                "add it to pruning.exclude"
            )
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is None:
            raise PruneFLError(
                f"model layer {path} has momentum=None, must be a number: its count is not exchanged"
            )
