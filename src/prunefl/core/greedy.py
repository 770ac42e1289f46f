"""Algorithm 3, for any monotone T over per-layer counts: a sorted list per layer, the best head at each step.

Within a layer the most important weight always goes first, so the answer is a number of weights per layer.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime, TimeModel, table

Floats = NDArray[np.floating]

TIE = 1 - 2.0**-44
"""Ratios that differ by less than the rounding of long float64 sums are equal, and equal qualifies."""


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
    names = list(candidates)
    heads = [np.sort(candidates[name])[::-1] for name in names]
    kept = np.array([counts[name] for name in names], dtype=np.int64)
    if isinstance(time_model, LinearTime | KinkedTime | FleetTime):
        from prunefl import _core

        taken = np.zeros_like(kept)
        times = table(time_model, names)
        offsets = np.cumsum([0, *[head.size for head in heads]], dtype=np.int64)
        joined = np.ascontiguousarray(np.concatenate(heads))
        _core.walk(
            times.constant, times.intercept, times.slope, joined, offsets, kept, kept_gain, room, TIE, taken
        )
    else:
        own = dict(zip(names, heads, strict=True))
        return _walk(own, time_model, dict(zip(names, kept.tolist(), strict=True)), kept_gain, room)
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
