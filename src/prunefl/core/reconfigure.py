"""Choose which weights to train next: the most risk reduction per second (Algorithms 2 and 3, docs/method.md 3 to 6).

Δ is the sum of the importance of the live weights, T the seconds of a round, Γ = Δ/T. Algorithm 2 sorts the
weights by gain/cost and takes them while their ratio is at least Γ. The set it ends with is {ratio ≥ Γ*}, Γ*
being the largest Γ, and Dinkelbach's iteration finds Γ* in a few linear passes: take what qualifies at the
present Γ, compute Γ anew, until it rises no more.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from prunefl.core.greedy import TIE, best_counts
from prunefl.core.limits import allowed_weights
from prunefl.core.masks import Mask, Masks
from prunefl.core.select import Scores, drop_smallest, keep, largest, largest_together, magnitudes
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import LinearTime, TimeModel
from prunefl.system.errors import PruneFLError

Floats = NDArray[np.floating]

Guard = Callable[[SparseState], Mapping[str, Scores]]
"""What keeps a live weight out of the prunable set: a score of each layer's live weights, the smallest go first."""


def guard_by_magnitude(state: SparseState) -> Mapping[str, Scores]:
    """Return |w|, the paper's guard."""
    return magnitudes(state.values, state.masks)


def _gamma(gain: float, cost: float, best_ratio: float) -> float:
    """Return Γ to begin with. From nothing at all (0/0) the best single weight is the beginning."""
    if cost > 0:
        return gain / cost
    return float("inf") if gain > 0 else best_ratio


def best_of_layers(
    candidates: Mapping[str, Floats],
    time_model: LinearTime,
    kept_gain: float,
    counts: Mapping[str, int],
    room: int,
) -> dict[str, int]:
    """Return how many of each layer's candidates to take, the most important first (Algorithm 2).

    All weights of a layer cost the same. Where more than `room` are worth it, those with the best ratios are
    taken: the algorithm stopped early.
    """
    cost = {name: time_model.per_weight[name] for name in candidates}
    kept_cost = time_model.seconds({name: counts[name] for name in candidates})
    free_gain = sum(_total(values) for name, values in candidates.items() if cost[name] == 0)
    heads = [float(v.max()) / cost[name] for name, v in candidates.items() if v.size and cost[name] > 0]
    gamma = _gamma(kept_gain + free_gain, kept_cost, max(heads, default=0.0))
    worth: dict[str, Floats] = dict(candidates)
    while True:
        # Γ only rises, so each set lies within the one before: the passes become shorter
        worth = {name: _at_least(values, gamma, cost[name]) for name, values in worth.items()}
        total = kept_cost + sum(cost[name] * values.size for name, values in worth.items())
        gain = kept_gain + sum(_total(values) for values in worth.values())
        following = gain / total if total > 0 else gamma
        if following <= gamma:
            return _stopped_early(worth, cost, room)
        gamma = following


def _at_least(gains: Floats, gamma: float, cost: float) -> Floats:
    """Return the gains of those that are worth their cost."""
    if cost == 0:
        return gains
    border = gamma * TIE * cost
    # rounded up to the gains' own type: the comparison is then the float64 one without a float64 copy
    rounded = gains.dtype.type(border)
    if float(rounded) < border:
        rounded = np.nextafter(rounded, gains.dtype.type(np.inf))
    return np.compress(gains >= rounded, gains)


def _stopped_early(worth: Mapping[str, Floats], cost: Mapping[str, float], room: int) -> dict[str, int]:
    """Return how many of each layer are among the `room` best by gain/cost; of equals the first ones."""
    counts = {name: values.size for name, values in worth.items()}
    if sum(counts.values()) <= room:
        return counts
    ratios = {
        n: v.astype(np.float64) / cost[n] if cost[n] > 0 else np.full(v.size, np.inf)
        for n, v in worth.items()
    }
    return {name: int(np.count_nonzero(taken)) for name, taken in largest_together(ratios, room).items()}


def reconfigure(
    state: SparseState,
    importance: Arrays,
    time_model: TimeModel,
    *,
    fraction: float,
    scope: str = "layer",
    fixed_gain: float = 0.0,
    max_density: float | None = None,
    guard: Guard = guard_by_magnitude,
) -> Masks:
    """Return the next masks: Algorithm 2 where T is linear, else Algorithm 3, within the hard size limit.

    Args:
        importance: at all positions of each layer, in its own shape.
        fraction: f(r), the part of the live weights that may be pruned, those with the smallest scores.
        scope: "layer" or "global": whether that part is taken of each layer or of the whole model.
        fixed_gain: summed importance of what is never pruned (biases, normalisation); its time is in c.
        max_density: live / prunable weights that may not be exceeded; without it there is no limit.
        guard: scores the live weights; what stays is cut by it, too, where it alone exceeds max_density.
    """
    gains = {name: _checked_importance(name, importance[name], mask) for name, mask in state.masks.items()}
    scores = guard(state)
    protected = protect(state.masks, scores, fraction, scope)
    room = allowed_weights(max_density, protected.size) - sum(protected.counts.values())
    try:
        time_model.seconds(protected.counts)
    except KeyError as missing:
        raise PruneFLError(f"the time model has no layer {missing}; it was made for another model") from None
    if room <= 0:
        stays = {name: scores[name][protected[name][mask]] for name, mask in state.masks.items()}
        return drop_smallest(protected, stays, -room)
    kept_gain, candidates = fixed_gain, {}
    for name, mask in protected.items():
        kept = mask.reshape(-1)
        kept_gain += _total(np.compress(kept, gains[name]))
        candidates[name] = np.compress(~kept, gains[name])
    if isinstance(time_model, LinearTime):
        added = best_of_layers(candidates, time_model, kept_gain, protected.counts, room)
    else:
        added = best_counts(candidates, time_model, kept_gain, protected.counts, room)
    return Masks({n: _add_largest(mask, candidates[n], added[n]) for n, mask in protected.items()})


def protect(masks: Masks, scores: Mapping[str, Scores], fraction: float, scope: str) -> Masks:
    """Return which weights must stay: the live ones but for the fraction with the smallest scores."""
    if not 0.0 <= fraction <= 1.0:
        raise PruneFLError(f"fraction={fraction}, must be between 0 and 1")
    counts = masks.counts
    if scope == "global":
        return drop_smallest(masks, scores, round(fraction * sum(counts.values())))
    if scope != "layer":
        raise PruneFLError(f"scope={scope!r}, must be 'layer' or 'global'")
    return keep(masks, {n: ~largest(-scores[n], round(fraction * counts[n])) for n in masks})


def _checked_importance(name: str, importance: Floats, mask: Mask) -> Floats:
    """Return the importance in row-major order, checked."""
    if importance.shape != mask.shape:
        raise PruneFLError(f"importance of {name} has shape {importance.shape}, must be {mask.shape}")
    gains: Floats = importance.reshape(-1)
    if gains.size and not 0 <= gains.min() <= gains.max() < np.inf:
        raise PruneFLError(f"importance of {name} must be finite and not negative")
    return gains


def _add_largest(mask: Mask, candidates: Floats, count: int) -> Mask:
    """Return the mask with `count` candidates more, those with the largest gain; of equals the first."""
    result = mask.reshape(-1).copy()
    result[~result] = largest(candidates, count)
    return result.reshape(mask.shape)


def _total(values: Floats) -> float:
    return float(values.sum(dtype=np.float64))
