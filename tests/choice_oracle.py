"""Algorithm 2 in ways that are slow and obviously right: by trying all subsets, word for word, and weight by weight."""

import itertools
from fractions import Fraction

import numpy as np


def exact_gamma(gain: Fraction, cost: Fraction) -> tuple[int, Fraction]:
    """Return Γ as something that can be compared: nothing at all is worst, something for nothing is best."""
    if cost > 0:
        return 1, gain / cost
    return (2, Fraction(0)) if gain > 0 else (0, Fraction(0))


def exhaustive(gain: list[int], cost: list[int], kept_gain: int, kept_cost: int | Fraction) -> list[bool]:
    """Return the largest of the subsets with the largest Γ, by trying all of them."""
    best, best_key = None, None
    for subset in itertools.product([False, True], repeat=len(gain)):
        total_gain = Fraction(kept_gain) + sum(g for g, s in zip(gain, subset, strict=True) if s)
        total_cost = Fraction(kept_cost) + sum(c for c, s in zip(cost, subset, strict=True) if s)
        key = (exact_gamma(total_gain, total_cost), sum(subset))
        if best_key is None or key > best_key:
            best, best_key = list(subset), key
    assert best is not None
    return best


def sort_and_scan(gain: np.ndarray, cost: np.ndarray, kept_gain: float, kept_cost: float) -> np.ndarray:
    """Return the paper's Algorithm 2, word for word."""
    gains, costs = gain.astype(np.float64).tolist(), cost.astype(np.float64).tolist()
    ratio = [g / c for g, c in zip(gains, costs, strict=True)]
    delta, seconds = kept_gain, kept_cost
    chosen = np.zeros(len(gains), np.bool_)
    for j in sorted(range(len(gains)), key=lambda j: -ratio[j]):
        if ratio[j] < delta / seconds:
            break
        chosen[j] = True
        delta, seconds = delta + gains[j], seconds + costs[j]
    return chosen


def best_subset(gain: np.ndarray, cost: np.ndarray, kept_gain: float, kept_cost: float) -> np.ndarray:
    """Return which weights are worth their time by Dinkelbach's iteration over single weights, bool (n,).

    Args:
        gain: importance of each prunable weight, (n,).
        cost: seconds that each adds to a round, (n,); what costs nothing is always worth it.
        kept_gain: importance of the weights that must stay.
        kept_cost: seconds of a round with only those, c included.
    """
    gain, cost = gain.astype(np.float64), cost.astype(np.float64)
    free = cost == 0
    gamma = _first_gamma(kept_gain + gain[free].sum(), kept_cost, gain[~free] / cost[~free])
    while True:
        # equal qualifies, in spite of the rounding of long sums
        worth = free | (gain >= gamma * (1 - 2.0**-44) * np.where(free, 1.0, cost))
        total = kept_cost + cost[worth].sum()
        following = (kept_gain + gain[worth].sum()) / total if total > 0 else gamma
        if following <= gamma:
            return worth
        gamma = following


def _first_gamma(gain: float, cost: float, ratios: np.ndarray) -> float:
    if cost > 0:
        return gain / cost
    return float("inf") if gain > 0 else ratios.max(initial=0.0)
