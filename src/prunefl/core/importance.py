"""Importance g*g (Algorithm 1): what a client sums, and when it has to (SPEC 1)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from prunefl.rounds.messages import State


def in_window(round: int, interval: int, window: int | str) -> bool:
    """Return whether importance is collected in this round; the one before a reconfiguration always counts.

    Args:
        round: the first is 1; a reconfiguration follows each multiple of `interval`.
        window: in how many rounds before it, or "all".
    """
    before = -round % interval
    return window == "all" or before < int(window)


def empty_sums(shapes: Mapping[str, torch.Size]) -> State:
    """Return zero sums for every parameter."""
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def mean(sums: State, steps: int) -> State:
    """Return the average over the steps it was collected in; zeros if there was none."""
    return {name: total / max(1, steps) for name, total in sums.items()}


def fixed_gain(importance: Mapping[str, Tensor], prunable: Mapping[str, Tensor]) -> float:
    """Return the summed importance of what is never pruned: it counts in Delta (SPEC 3)."""
    return sum(float(value.double().sum()) for name, value in importance.items() if name not in prunable)
