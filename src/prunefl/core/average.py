"""From many updates to one: weighted means, and robust ones for fleets that are not trusted."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from prunefl import _core
from prunefl.core.masks import Masks
from prunefl.core.state import Array, Arrays, SparseState

Combine = Callable[[Sequence[Array], Sequence[float]], Array]


def shares(num_samples: Sequence[float], weighting: str) -> list[float]:
    """Return p_n of each participant: D_n / D, or 1 / n for `uniform` (docs/method.md 2)."""
    if weighting == "uniform":
        return [1 / len(num_samples)] * len(num_samples)
    total = sum(num_samples)
    return [count / total for count in num_samples]


def weighted_mean(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """Return sum p_n x_n, added in the order given so that the bits do not depend on who came first."""
    total: Array | None = None
    for array, weight in zip(arrays, weights, strict=True):
        total = add_weighted(total, array, weight)
    assert total is not None
    return total


def add_weighted(total: Array | None, array: Array, weight: float) -> Array:
    """Return total + weight * array, in place; a new array where there is no total yet."""
    if total is None:
        # not array * weight, which has the array's memory order, and of a single number is no array
        return np.multiply(array, np.float32(weight), out=np.empty(array.shape, np.float32))
    _core.accumulate(np.ascontiguousarray(array).reshape(-1), weight, total.reshape(-1))
    return total


def median(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """Return the coordinate-wise median; the weights are not used: a liar could claim any."""
    ordered = np.sort(np.stack(arrays), axis=0)
    count = len(ordered)
    return np.asarray((ordered[(count - 1) // 2] + ordered[count // 2]) / np.float32(2))


def trimmed_mean(share: float) -> Combine:
    """Return the mean without the `share` smallest and largest values of each coordinate, rounded up.

    Of three clients one is left out on either side, however small the share.
    """

    def combine(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
        ordered = np.sort(np.stack(arrays), axis=0)
        # 0.1 * 30 is a little more than 3
        cut = min(math.ceil(share * len(ordered) - 1e-9), (len(ordered) - 1) // 2)
        return np.asarray(ordered[cut : len(ordered) - cut].mean(axis=0, dtype=np.float32))

    return combine


def choose_combine(aggregate: str, trim: float) -> Combine:
    """Return the way that server.aggregate names."""
    return {"mean": weighted_mean, "median": median, "trimmed_mean": trimmed_mean(trim)}[aggregate]


def combine_statistics(given: Iterable[Arrays], weights: Sequence[float], combine: Combine) -> Arrays:
    """Return statistics of the same names made one; a mean is added up one after another, to save memory."""
    if combine is not weighted_mean:
        kept = list(given)
        return {name: combine([one[name] for one in kept], weights) for name in kept[0]}
    total: dict[str, Array] = {}
    for one, weight in zip(given, weights, strict=True):
        for name, value in one.items():
            total[name] = add_weighted(total.get(name), value, weight)
    return total


def combine_states(states: Sequence[SparseState], weights: Sequence[float], combine: Combine) -> SparseState:
    """Return the states combined name by name; all live under the same masks."""
    values = {name: combine([s.values[name] for s in states], weights) for name in states[0].values}
    return SparseState(values, states[0].masks)


def mean_over_holders(states: Sequence[SparseState], weights: Sequence[float]) -> SparseState:
    """Return each weight averaged over the clients whose mask holds it, under the union of their masks (FedDST)."""
    names, masks = list(states[0].values), [state.masks for state in states]
    union = Masks({n: np.logical_or.reduce([own[n] for own in masks]) for n in masks[0]})
    values: dict[str, Array] = {}
    for name in names:
        mean = weighted_mean([state.dense(name) for state in states], weights)
        if name in union:
            held = weighted_mean([own[name].astype(np.float32) for own in masks], weights)
            mean = np.where(held > 0, mean / np.maximum(held, np.float32(1e-12)), np.float32(0))
        values[name] = mean
    return SparseState.from_dense(values, union)


def clip_change(state: SparseState, start: SparseState, limit: float) -> SparseState:
    """Return the state moved back towards `start`, of the same masks, so that its change has at most this norm."""
    changes: Mapping[str, Array] = {name: state.values[name] - start.values[name] for name in state.values}
    norm = math.sqrt(sum(float(np.square(change, dtype=np.float64).sum()) for change in changes.values()))
    if norm <= limit:
        return state
    share = np.float32(limit / norm)
    moved: Arrays = {
        name: np.asarray(start.values[name] + share * change) for name, change in changes.items()
    }
    return SparseState(moved, state.masks)


def shrink_change(state: SparseState, start: SparseState, share: float) -> SparseState:
    """Return `start` moved by a share of the change to `state`, under its masks; in float64, for any size."""
    before = start.remask(state.masks)
    moved: Arrays = {
        name: np.asarray(
            before.values[name] + share * np.subtract(value, before.values[name], dtype=np.float64),
            np.float32,
        )
        for name, value in state.values.items()
    }
    return SparseState(moved, state.masks)
