"""From many updates to one: weighted means, and robust ones for fleets that are not trusted."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from prunefl.rounds.messages import State

Combine = Callable[[Sequence[Tensor], Sequence[float]], Tensor]


def shares(num_samples: Sequence[int], weighting: str) -> list[float]:
    """Return p_n of each participant: D_n / D, or 1 / n for `uniform` (SPEC 2)."""
    if weighting == "uniform":
        return [1 / len(num_samples)] * len(num_samples)
    total = sum(num_samples)
    return [count / total for count in num_samples]


def weighted_mean(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Return sum p_n x_n, added in the order given so that the bits do not depend on who came first."""
    result = tensors[0] * weights[0]
    for tensor, weight in zip(tensors[1:], weights[1:], strict=True):
        result.add_(tensor, alpha=weight)
    return result


def median(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Return the coordinate-wise median; the weights are not used: a liar could claim any."""
    ordered = torch.stack(list(tensors)).sort(dim=0).values
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def trimmed_mean(share: float) -> Combine:
    """Return the mean without the `share` smallest and largest values of each coordinate, rounded up.

    Of three clients one is left out on either side, however small the share.
    """

    def combine(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        ordered = torch.stack(list(tensors)).sort(dim=0).values
        # 0.1 * 30 is a little more than 3
        cut = min(math.ceil(share * len(ordered) - 1e-9), (len(ordered) - 1) // 2)
        return ordered[cut : len(ordered) - cut].mean(dim=0)

    return combine


def combine_states(
    states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], combine: Combine
) -> State:
    """Return the states combined name by name; all have the same names and shapes."""
    return {name: combine([state[name] for state in states], weights) for name in states[0]}


def mean_over_holders(
    states: Sequence[Mapping[str, Tensor]], masks: Sequence[Mapping[str, Tensor]], weights: Sequence[float]
) -> State:
    """Return each weight averaged over the clients whose mask holds it (FedDST), dense shapes.

    Args:
        states: dense states, zero where pruned.
        masks: each client's own masks; parameters without a mask are held by all.
    """
    result = combine_states(states, weights, weighted_mean)
    for name in masks[0]:
        held = weighted_mean([mask[name].float() for mask in masks], weights)
        result[name] = torch.where(held > 0, result[name] / held.clamp_min(1e-12), 0.0)
    return result


def clip_change(state: State, start: Mapping[str, Tensor], limit: float) -> State:
    """Return the state moved back towards `start` so that its change has at most this norm."""
    norm = sum(float((state[name] - start[name]).double().square().sum()) for name in state) ** 0.5
    if norm <= limit:
        return state
    return {name: torch.lerp(start[name], state[name], limit / norm) for name in state}
