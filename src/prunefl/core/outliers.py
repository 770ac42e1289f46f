"""What stands out of a cohort: each is measured by the median of all, which a few liars cannot move far.

What stays within its bounds is not touched at all: a cohort of honest clients has the same bits with and without them.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from prunefl import _core
from prunefl.core.state import Arrays, SparseState

MOST_NORM = 1e30
"""Of all weights, and of a change; products of larger ones leave the range of float32 at once."""

ENOUGH = 3
"""Of two that differ nobody can say which one is wrong."""


def median(values: Sequence[float]) -> float:
    """Return the median; of an even number, the mean of the two in the middle."""
    return float(np.median(np.asarray(values, np.float64)))


def find_usual(values: Sequence[float], before: float) -> float:
    """Return what is usual: the median, filled up to three by what was usual before, 0 if that is not known."""
    if len(values) < ENOUGH and not before:
        return 0.0
    return median([*values, *[before] * (ENOUGH - len(values))])


def times_usual(values: Mapping[int, float], usual: float) -> dict[int, float]:
    """Return each value as a multiple of the usual one; 0 for all where nothing is usual."""
    return {key: value / usual if usual else 0.0 for key, value in values.items()}


def cap(values: Sequence[float], most: float) -> list[float]:
    """Return the values, none further from zero than `most` times the median distance; 0 and of fewer than three: any.

    Those within the bounds come back as they are.
    """
    usual = median([abs(value) for value in values]) if len(values) >= ENOUGH else 0.0
    bound = most * usual
    # also where a tiny median and a small `most` leave nothing of their product
    if not bound:
        return list(values)
    return [value if abs(value) <= bound else math.copysign(bound, value) for value in values]


def measure_change(state: SparseState, start: SparseState) -> float:
    """Return the norm of the change from one state to another: their distance, perhaps under other masks."""
    if state.masks == start.masks:
        pairs = [(state.values[name], start.values[name]) for name in state.values]
    else:
        # zero where pruned
        pairs = [(state.dense(name), start.dense(name)) for name in state.values]
    flat = ((np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)) for a, b in pairs)
    return math.sqrt(sum(_core.square_distance(a, b) for a, b in flat))


def measure_mass(statistic: Arrays) -> float:
    """Return the sum of what a statistic says of all parameters, signs aside."""
    return sum(float(np.abs(value).sum(dtype=np.float64)) for value in statistic.values())


def measure_norm(state: SparseState) -> float:
    """Return the norm of all values of a state."""
    return math.sqrt(sum(float(np.square(value, dtype=np.float64).sum()) for value in state.values.values()))


def most_central(states: Sequence[SparseState]) -> SparseState:
    """Return the state that lies nearest to half of the others, each perhaps under masks of its own.

    A few that are not like the rest are far from more than half, however they are made (Krum, for a choice of one).
    """
    nearest = len(states) // 2
    scores = [
        sum(sorted(measure_change(other, one) for other in states if other is not one)[:nearest])
        for one in states
    ]
    return states[scores.index(min(scores))]
