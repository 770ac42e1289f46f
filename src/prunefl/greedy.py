"""Algorithm 3, for any monotone T over per-layer counts: a sorted list per layer, the best head at each step.

Within a layer the most important weight always goes first, so the answer is a number of weights per layer.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from prunefl.time_model import FleetTime, KinkedTime, LinearTime, TimeModel, table

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

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
        from prunefl import _greedy  # a linear T never comes here, and needs no compiled module

        taken = np.zeros_like(kept)
        times = table(time_model, names)
        offsets = np.cumsum([0, *[head.size for head in heads]], dtype=np.int64)
        joined = np.ascontiguousarray(np.concatenate(heads))
        _greedy.walk(
            times.constant, times.intercept, times.slope, joined, offsets, kept, kept_gain, room, TIE, taken
        )
    else:
        taken = _walk(
            heads, lambda n: time_model.seconds(dict(zip(names, n, strict=True))), kept, kept_gain, room
        )
    return dict(zip(names, taken.tolist(), strict=True))


def _walk(
    heads: list[Floats], seconds: Callable[[list[int]], float], kept: Ints, gain: float, room: int
) -> Ints:
    """Return the weights taken of each layer, for a T of which nothing is known but that it is monotone."""
    taken = np.zeros_like(kept)
    one = np.eye(len(heads), dtype=np.int64)
    for _ in range(room):
        now = seconds((kept + taken).tolist())
        open_layers = [k for k, head in enumerate(heads) if taken[k] < head.size]
        marginal = {k: seconds((kept + taken + one[k]).tolist()) - now for k in open_layers}
        ratio = {k: heads[k][taken[k]] / t if t > 0 else np.inf for k, t in marginal.items()}
        best = max(ratio, key=ratio.__getitem__, default=None)
        # cross-multiplied, so that T = 0 and a marginal cost of 0 need no rule of their own
        if best is None or heads[best][taken[best]] * now < marginal[best] * gain * TIE:
            break
        gain += float(heads[best][taken[best]])
        taken[best] += 1
    return taken
