"""Differential privacy's arithmetic: clip what one client says, add it up in float64, add Gaussian noise."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from prunefl.core.randomness import Normal
from prunefl.core.state import Array, Arrays, SparseState

Sums = dict[str, NDArray[np.float64]]


def change_of(state: SparseState, start: SparseState) -> Arrays:
    """Return what a client changed, by name, under the masks of both."""
    return {name: value - start.values[name] for name, value in state.values.items()}


def measure(arrays: Arrays) -> float:
    """Return the Euclidean norm of all arrays together."""
    return math.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays.values()))


def clip_share(norm: float, limit: float) -> float:
    """Return the factor that brings a norm down to the limit, 1 if it is below; 0 for what is not finite."""
    if not math.isfinite(norm):
        return 0.0
    return 1.0 if norm <= limit else limit / norm


def unit_share(norm: float) -> float:
    """Return the factor that makes a norm 1; 0 for what has none."""
    return 1.0 / norm if 0 < norm < math.inf else 0.0


def scale(arrays: Arrays, share: float) -> Arrays:
    """Return the arrays times a factor; zeros for a factor of 0, whatever they hold."""
    if share == 1.0:
        return arrays
    if not share:
        return {name: np.zeros_like(array) for name, array in arrays.items()}
    return {name: np.asarray(array * np.float32(share), np.float32) for name, array in arrays.items()}


def move(start: SparseState, change: Arrays) -> SparseState:
    """Return the start with a change to it."""
    return SparseState({name: value + change[name] for name, value in start.values.items()}, start.masks)


def add_up(given: Iterable[tuple[Arrays, float]], like: Mapping[str, tuple[int, ...]]) -> Sums:
    """Return the sum of arrays, each times its factor, in float64: rounding would move it by more than its bound.

    Args:
        like: names and shapes; of nothing at all the sum is zero.
    """
    total: Sums = {name: np.zeros(shape) for name, shape in like.items()}
    for arrays, share in given:
        for name, array in arrays.items():
            total[name] += np.multiply(array, share, dtype=np.float64) if share else 0.0
    return total


def add_noise(sums: Mapping[str, NDArray[np.float64]], sigma: float, normal: Normal) -> Sums:
    """Return the sums with Gaussian noise of this standard deviation on every number.

    Drawn by name, in whatever order they are given: a run that goes on has the same noise on the same numbers.
    """
    return {
        name: sums[name] + sigma * normal(sums[name].size).reshape(sums[name].shape) for name in sorted(sums)
    }


def mean_arrays(sums: Mapping[str, NDArray[np.float64]], count: int) -> dict[str, Array]:
    """Return the sums over a count that was fixed before anybody answered, in float32."""
    return {name: np.asarray(total / count, np.float32) for name, total in sums.items()}


def follow_quantile(clip: float, within: float, quantile: float, rate: float = 0.2) -> float:
    """Return the next clip: smaller if more changes than the quantile were within it (Andrew et al. 2021).

    Args:
        within: noised share of the changes that were; it may lie outside 0 to 1.
    """
    return clip * math.exp(-rate * (min(1.0, max(0.0, within)) - quantile))
