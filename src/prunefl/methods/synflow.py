"""SynFlow: prune before training, without data, so that no layer ever collapses."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.select import Scores, keep_largest, target_count
from prunefl.methods.base import Chosen, Method

STEPS = 100


class SynFlow(Method):
    """Fixed masks at `pruning.density`, chosen at the server."""

    name = "synflow"
    label = "SynFlow"
    colours, dash, place = ("#3a9d5d", "#6fd695"), "7 3 2 3", 3
    needs_density = True

    def first(self, network: Network) -> Chosen:
        return Chosen(synflow_masks(network, self.config.pruning.density))


def synflow_masks(network: Network, density: float, steps: int = STEPS) -> Masks:
    """Return masks with exactly density * N live weights, pruned to density^(k/steps) at step k."""
    magnitude, masks = _magnitude_model(network.module), network.full_masks
    for step in range(1, steps + 1):
        flow = _flow(magnitude, masks, network)
        scores = {name: score.reshape(-1)[masks[name].reshape(-1)] for name, score in flow.items()}
        masks = keep_largest(masks, scores, target_count(density ** (step / steps), masks.size))
    return masks


def _magnitude_model(module: Any) -> Any:
    """Return a float64 copy that holds |θ|: the product of eleven layers' weights leaves float32."""
    import torch

    magnitude = copy.deepcopy(module).double().eval()
    with torch.no_grad():
        for tensor in (*magnitude.parameters(), *magnitude.buffers()):
            tensor.abs_()
    return magnitude


def _flow(magnitude: Any, masks: Masks, network: Network) -> Mapping[str, Scores]:
    """Return |∂R/∂θ ⊙ θ| with R = Σ f(1) at the masked weights."""
    import torch

    weights = {n: magnitude.get_parameter(n).detach() * torch.tensor(mask) for n, mask in masks.items()}
    for weight in weights.values():
        weight.requires_grad_()
    ones = torch.ones(1, *network.input_shape, dtype=torch.float64)
    flow = torch.func.functional_call(magnitude, weights, (ones,)).sum()
    gradients = torch.autograd.grad(flow, list(weights.values()))
    return {
        name: np.abs((gradient * weights[name]).detach().numpy())
        for name, gradient in zip(weights, gradients, strict=True)
    }
