"""SynFlow: prune before training, without data, so that no layer ever collapses."""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from prunefl.core.masks import Masks, full_masks
from prunefl.methods import Pruner
from prunefl.methods.survivors import Fixed, given_density, keep_largest, sizes_of, target_count

if TYPE_CHECKING:
    from prunefl.config import Config

STEPS = 100


def synflow_masks(
    model: nn.Module, names: Sequence[str], input_shape: Sequence[int], density: float, steps: int = STEPS
) -> Masks:
    """Return masks with exactly density * N live weights, pruned to density^(k/steps) at step k."""
    magnitude = _magnitude_model(model)
    start = {name: magnitude.get_parameter(name).detach().clone() for name in names}
    masks: Masks = full_masks(model, names)
    total = sum(sizes_of(masks).values())
    for step in range(1, steps + 1):
        scores = _scores(magnitude, start, masks, input_shape)
        masks = keep_largest(scores, masks, target_count(density ** (step / steps), total))
    return masks


def _magnitude_model(model: nn.Module) -> nn.Module:
    """Return a float64 copy that holds |θ|: the product of eleven layers' weights leaves float32."""
    magnitude = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        for tensor in (*magnitude.parameters(), *magnitude.buffers()):
            tensor.abs_()
    return magnitude


def _scores(
    magnitude: nn.Module, start: dict[str, Tensor], masks: Masks, input_shape: Sequence[int]
) -> dict[str, Tensor]:
    """Return |∂R/∂θ ⊙ θ| with R = Σ f(1) at the masked weights."""
    weights = {name: start[name] * mask for name, mask in masks.items()}
    for weight in weights.values():
        weight.requires_grad_()
    ones = torch.ones(1, *input_shape, dtype=torch.float64)
    flow = torch.func.functional_call(magnitude, weights, (ones,)).sum()
    gradients = torch.autograd.grad(flow, list(weights.values()))
    return {
        name: (gradient * weights[name]).detach().abs()
        for name, gradient in zip(weights, gradients, strict=True)
    }


def synflow(config: "Config") -> Pruner:
    """Return SynFlow at `pruning.density`."""
    density = given_density(config)
    return Fixed(lambda model, names, shape: synflow_masks(model, names, shape, density))
