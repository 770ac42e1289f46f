"""From a dense model and masks to one that holds only its live weights, and back."""

import copy
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from prunefl.core.masks import Mask
from prunefl.local.torch_backend import layout
from prunefl.local.torch_backend.breakeven import BreakEven, computes_sparsely, surely_sparse
from prunefl.local.torch_backend.inputs import TorchInputs, call
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.masked import MaskedLayer
from prunefl.local.torch_backend.pattern import kernels_compute
from prunefl.local.torch_backend.pruned import PrunedLayer
from prunefl.local.torch_backend.sequential import FusedSequential
from prunefl.local.torch_backend.spec import spec_of
from prunefl.system.errors import PruneFLError

CHOICES = ("auto", "sparse", "dense")

AWARE: dict[type[nn.Module], type[nn.Module]] = {
    nn.Sequential: FusedSequential,
    nn.Conv2d: layout.OrderedConv2d,
    nn.ReLU: layout.OrderedReLU,
    nn.BatchNorm2d: layout.OrderedBatchNorm2d,
    nn.MaxPool2d: layout.OrderedMaxPool2d,
    nn.AdaptiveAvgPool2d: layout.OrderedAdaptiveAvgPool2d,
    nn.Flatten: layout.OrderedFlatten,
}
"""Plain layer -> the same layer that knows the order in which sparse convolutions leave their output."""


def sparsify(
    model: nn.Module,
    masks: Mapping[str, Tensor] | Mapping[str, Mask],
    *,
    choose: str = "auto",
    example: TorchInputs | None = None,
    measured: MutableMapping[str, float] | None = None,
) -> nn.Module:
    """Return a copy of the model that trains only the weights that the masks keep.

    Layers without a mask, or whose mask keeps everything, stay plain torch layers.

    Args:
        masks: parameter name -> bool tensor or array of its shape.
        choose: how pruned layers compute: "sparse", "dense", or "auto", whichever is faster here.
        example: a batch as in training. With it, "auto" goes by what layers of these sizes need on this machine,
            measured at their first appearance; without it, by usual break-even densities.
        measured: break-even densities to go by instead; what has to be measured is added.
    """
    if choose not in CHOICES:
        raise PruneFLError(f"choose={choose!r}, must be one of {', '.join(CHOICES)}")
    before = {name: isinstance(layer, SparseLayer) for name, layer in pruned_layers(model).items()}
    dense = densify(model)
    layers = {_weight_name(path): module for path, module in dense.named_modules()}
    chosen = {name: _layer_for(name, mask, layers) for name, mask in masks.items()}
    arrays = {name: np.asarray(mask) for name, mask in masks.items()}
    even = BreakEven({} if measured is None else measured)

    @cache
    def sizes() -> Mapping[nn.Module, tuple[int, ...]]:
        return {} if example is None else input_sizes(dense, example)

    swaps: dict[nn.Module, nn.Module] = {}
    for name, layer in chosen.items():
        if not arrays[name].all():
            sparse = _is_sparse(layer, arrays[name], choose, sizes, before.get(name), even)
            swaps[layer] = _pruned(layer, arrays[name], sparse)
    return _made_aware_in_place(_off_fast_path(_swapped(dense, swaps)))


def _off_fast_path(model: nn.Module) -> nn.Module:
    """Return the model; torch's fused encoder layer, which calls no linear layers, is kept from pruned ones."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer) and any(
            isinstance(part, PrunedLayer) for part in module.modules()
        ):
            # what torch asks before it takes that path
            module.activation_relu_or_gelu = 0
    return model


def densify(model: nn.Module) -> nn.Module:
    """Return a plain copy of the model, zeros at pruned positions, under the same state-dict names."""
    duplicate = _made_plain_in_place(copy.deepcopy(model))
    swaps: dict[nn.Module, nn.Module] = {
        module: module.dense_layer() for module in duplicate.modules() if isinstance(module, PrunedLayer)
    }
    return _swapped(duplicate, swaps)


def masks_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the masks of the pruned layers by parameter name, in the model's order."""
    return {name: layer.live_mask() for name, layer in pruned_layers(model).items()}


def pruned_layers(model: nn.Module) -> dict[str, PrunedLayer]:
    """Return the pruned layers by the name of their weight, in the model's order."""
    return {
        _weight_name(path): module
        for path, module in model.named_modules()
        if isinstance(module, PrunedLayer)
    }


def _weight_name(path: str) -> str:
    """Return the parameter name of the weight of the module at a path."""
    return f"{path}.weight" if path else "weight"


def _layer_for(name: str, mask: object, layers: Mapping[str, nn.Module]) -> nn.Linear | nn.Conv2d:
    """Return the layer that a mask is for; refuse a mask that fits none."""
    layer = layers.get(name)
    if not isinstance(layer, nn.Linear | nn.Conv2d):
        raise PruneFLError(f"masks[{name!r}] must name the weight of a Linear or Conv2d layer of the model")
    if not isinstance(mask, Tensor | np.ndarray) or mask.dtype not in (torch.bool, np.bool_):
        given = getattr(mask, "dtype", type(mask).__name__)
        raise PruneFLError(f"masks[{name!r}] is of {given}, must be a bool tensor or array")
    if tuple(mask.shape) != tuple(layer.weight.shape):
        shapes = f"{tuple(mask.shape)}, must be {tuple(layer.weight.shape)}"
        raise PruneFLError(f"masks[{name!r}] has shape {shapes}")
    return layer


def input_sizes(model: nn.Module, example: TorchInputs) -> dict[nn.Module, tuple[int, ...]]:
    """Return the shape of what reaches each Linear and Conv2d when the example goes through the model."""
    sizes: dict[nn.Module, tuple[int, ...]] = {}

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        sizes[module] = tuple(inputs[0].shape)

    layers = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    training = {module: module.training for module in model.modules()}
    try:
        # Not under fork_rng: two workers that save and restore torch's generator at once wait for each other for ever.
        with torch.no_grad():
            call(model.eval(), example)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in training.items():
            module.training = mode
    return sizes


def _is_sparse(
    layer: nn.Linear | nn.Conv2d,
    mask: Mask,
    choose: str,
    sizes: Callable[[], Mapping[nn.Module, tuple[int, ...]]],
    before: bool | None,
    even: BreakEven,
) -> bool:
    """Return whether a pruned layer should compute sparsely; sizes of inputs are asked for only in doubt."""
    spec = spec_of(layer)
    if choose == "dense" or not kernels_compute(spec, layer.weight):
        return False
    density = np.count_nonzero(mask) / mask.size
    if choose == "sparse" or surely_sparse(spec, density, before):
        return True
    return computes_sparsely(density, even.density(spec, sizes().get(layer)), before)


def _pruned(layer: nn.Linear | nn.Conv2d, mask: Mask, sparse: bool) -> PrunedLayer:
    """Return the pruned layer that replaces a plain one."""
    made = (SparseLayer if sparse else MaskedLayer)(spec_of(layer), layer.weight, layer.bias, mask)
    made.weight.requires_grad_(layer.weight.requires_grad)
    made.train(layer.training)
    return made


def _made_aware_in_place(model: nn.Module) -> nn.Module:
    """Return the model; where it has sparse layers, plain ones learn the order of their output."""
    if any(isinstance(module, SparseLayer) for module in model.modules()):
        for module in model.modules():
            # Settings, parameters and hooks stay; only what forward does changes.
            module.__class__ = AWARE.get(type(module), type(module))
    return model


def _made_plain_in_place(model: nn.Module) -> nn.Module:
    """Return the model with plain layers again."""
    plain = {aware: kind for kind, aware in AWARE.items()}
    for module in model.modules():
        module.__class__ = plain.get(type(module), type(module))
    return model


def _swapped(model: nn.Module, swaps: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """Return the model with modules replaced, wherever in it they stand."""
    for parent in model.modules():
        for name, child in parent._modules.items():
            if child is not None and child in swaps:
                parent._modules[name] = swaps[child]
    return swaps.get(model, model)
