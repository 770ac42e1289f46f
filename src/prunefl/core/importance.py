"""Importance g*g (Algorithm 1): when clients sum it, and what it comes to (docs/method.md 1)."""

from collections.abc import Mapping

import numpy as np

from prunefl.core.masks import Masks, Shape
from prunefl.core.state import Array, Arrays


def in_window(round: int, interval: int, window: int | str) -> bool:
    """Return whether importance is collected in this round; the one before a reconfiguration always counts.

    Args:
        round: the first is 1; a reconfiguration follows each multiple of `interval`.
        window: in how many rounds before it, or "all".
    """
    before = -round % interval
    return window == "all" or before < int(window)


def empty_sums(shapes: Mapping[str, Shape]) -> dict[str, Array]:
    """Return zero sums in these shapes."""
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def mean(sums: Arrays, steps: int) -> dict[str, Array]:
    """Return the average over the steps it was collected in; zeros if there was none."""
    return {name: np.asarray(total / np.float32(max(1, steps))) for name, total in sums.items()}


def fixed_gain(importance: Arrays, masks: Masks) -> float:
    """Return the summed importance of what is never pruned: it counts in Delta (docs/method.md 3)."""
    return sum(float(value.sum(dtype=np.float64)) for name, value in importance.items() if name not in masks)
