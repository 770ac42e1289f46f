"""Algorithm 3, for any monotone T over per-layer counts: a sorted list per layer, the best head at each step.

Within a layer the most important weight always goes first, so the answer is a number of weights per layer.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prunefl.core.select import kth_largest
from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime, TimeModel, table

Floats = NDArray[np.floating]

TIE = 1 - 2.0**-44
"""Ratios that differ by less than the rounding of long float64 sums are equal, and equal qualifies."""

FIRST_LOOK = 1 << 17
"""Weights of a layer that are sorted at first: few are ever taken, and to sort 10^7 takes longer than all the rest."""


def best_counts(
    candidates: Mapping[str, Floats],
    time_model: TimeModel,
    kept_gain: float,
    counts: Mapping[str, int],
    room: int,
) -> dict[str, int]:
    """Return how many of each layer's candidates to take, the most important first (Algorithm 3).

    Args:
        candidates: importance of the prunable weights of each layer.
        kept_gain: importance of all that must stay.
        counts: weights of each layer that must stay.
        room: at most so many are taken.
    """
    if not isinstance(time_model, LinearTime | KinkedTime | FleetTime):
        heads = {name: _sorted_head(values, values.size) for name, values in candidates.items()}
        return _walk(heads, time_model, {name: counts[name] for name in candidates}, kept_gain, room)
    seen = {name: min(values.size, FIRST_LOOK) for name, values in candidates.items()}
    while True:
        heads = {name: _sorted_head(values, seen[name]) for name, values in candidates.items()}
        taken = _walk_lines(heads, time_model, counts, kept_gain, room)
        # who never came to the end of what it saw of a layer has taken the steps of one who sees it whole
        short = [n for n, head in heads.items() if taken[n] == head.size < candidates[n].size]
        if not short:
            return taken
        seen |= {name: min(candidates[name].size, 8 * heads[name].size) for name in short}


def _sorted_head(values: Floats, count: int) -> Floats:
    """Return the `count` largest values, the largest first, and all that equal the last of them."""
    if count < values.size:
        values = np.compress(values >= kth_largest(values, count), values)
    return np.sort(values)[::-1]


def _walk_lines(
    heads: Mapping[str, Floats],
    time_model: LinearTime | KinkedTime | FleetTime,
    counts: Mapping[str, int],
    gain: float,
    room: int,
) -> dict[str, int]:
    """Return the weights taken of each layer, for a T made of lines: the same walk, compiled."""
    from prunefl import _core

    names = list(heads)
    kept = np.array([counts[name] for name in names], dtype=np.int64)
    taken = np.zeros_like(kept)
    times = table(time_model, names)
    offsets = np.cumsum([0, *[head.size for head in heads.values()]], dtype=np.int64)
    joined = np.ascontiguousarray(np.concatenate(list(heads.values())))
    _core.walk(times.constant, times.intercept, times.slope, joined, offsets, kept, gain, room, TIE, taken)
    return dict(zip(names, taken.tolist(), strict=True))


def _walk(
    heads: Mapping[str, Floats], time_model: TimeModel, counts: dict[str, int], gain: float, room: int
) -> dict[str, int]:
    """Return the weights taken of each layer, for a T of which nothing is known but that it is monotone."""
    kept, left = dict(counts), {name: iter(head.tolist()) for name, head in heads.items()}
    head = {name: next(rest, None) for name, rest in left.items()}
    now = time_model.seconds(counts)
    for _ in range(room):
        best, best_ratio, best_after = "", -1.0, now
        for name, value in head.items():
            if value is not None:
                after = time_model.seconds({**counts, name: counts[name] + 1})
                ratio = value / (after - now) if after > now else math.inf
                if ratio > best_ratio:
                    best, best_ratio, best_after = name, ratio, after
        value = head.get(best)
        # cross-multiplied, so that T = 0 and a marginal cost of 0 need no rule of their own
        if value is None or value * now < (best_after - now) * gain * TIE:
            break
        gain += value
        counts[best] += 1
        now, head[best] = best_after, next(left[best], None)
    return {name: counts[name] - kept[name] for name in counts}
