"""From a dense model and masks to one that holds only its live weights, and back."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from prunefl.masks import Masks
from prunefl.sparse.masked import MaskedLayer
from prunefl.sparse.pruned import PrunedLayer
from prunefl.sparse.spec import spec_of

CHOICES = ("auto", "sparse", "dense")


def sparsify(model: nn.Module, masks: Masks, *, choose: str = "auto") -> nn.Module:
    """Return a copy of the model that trains only the weights that the masks keep.

    Layers without a mask, or whose mask keeps everything, stay plain torch layers.

    Args:
        masks: parameter name -> bool tensor of its shape.
        choose: how pruned layers compute: "sparse", "dense", or "auto", whichever is faster here.
    """
    if choose not in CHOICES:
        raise ValueError(f"choose={choose!r}, must be one of {', '.join(CHOICES)}")
    dense = densify(model)
    layers = {_weight_name(path): module for path, module in dense.named_modules()}
    swaps: dict[nn.Module, nn.Module] = {}
    for name, mask in masks.items():
        layer = _layer_for(name, mask, layers)
        if not bool(mask.all()):
            swaps[layer] = MaskedLayer(spec_of(layer), layer.weight, layer.bias, mask).train(layer.training)
    return _swapped(dense, swaps)


def densify(model: nn.Module) -> nn.Module:
    """Return a plain copy of the model, zeros at pruned positions, under the same state-dict names."""
    duplicate = copy.deepcopy(model)
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


def _layer_for(name: str, mask: Tensor, layers: Mapping[str, nn.Module]) -> nn.Linear | nn.Conv2d:
    """Return the layer that a mask is for; refuse a mask that fits none."""
    layer = layers.get(name)
    if not isinstance(layer, nn.Linear | nn.Conv2d):
        raise ValueError(f"masks[{name!r}] must name the weight of a Linear or Conv2d layer of the model")
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        given = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"masks[{name!r}] is of {given}, must be a bool tensor")
    if mask.shape != layer.weight.shape:
        shapes = f"{tuple(mask.shape)}, must be {tuple(layer.weight.shape)}"
        raise ValueError(f"masks[{name!r}] has shape {shapes}")
    return layer


def _swapped(model: nn.Module, swaps: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """Return the model with modules replaced, wherever in it they stand."""
    for parent in model.modules():
        for name, child in parent._modules.items():
            if child is not None and child in swaps:
                parent._modules[name] = swaps[child]
    return swaps.get(model, model)
