"""Choose which weights to train next: the most risk reduction per second (Algorithms 2 and 3, SPEC 3 to 6).

Δ is the sum of the importance of the live weights, T the seconds of a round, Γ = Δ/T. Algorithm 2 sorts the
weights by gain/cost and takes them while their ratio is at least Γ. The set it ends with is {ratio ≥ Γ*}, Γ*
being the largest Γ, and Dinkelbach's iteration finds Γ* in a few linear passes: take what qualifies at the
present Γ, compute Γ anew, until it rises no more.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunefl.core.greedy import TIE, best_counts
from prunefl.core.masks import Masks
from prunefl.core.prunable import allowed_weights, protected_masks, without_smallest
from prunefl.core.time_model import LinearTime, TimeModel

Floats = NDArray[np.floating]


def best_subset(gain: Tensor, cost: Tensor, kept_gain: float, kept_cost: float) -> Tensor:
    """Return a mask of the weights worth their time, shape (n,).

    Args:
        gain: importance of each prunable weight, shape (n,), not negative.
        cost: seconds each adds to a round, shape (n,), not negative; what costs nothing is always worth it.
        kept_gain: importance of the weights that must stay.
        kept_cost: seconds of a round with only those, c included.
    """
    gain, cost = gain.double(), cost.double()
    if gain.shape != cost.shape or (gain < 0).any() or (cost < 0).any() or min(kept_gain, kept_cost) < 0:
        raise ValueError("gain and cost must have one shape and no negative value")
    free = cost == 0
    best = float((gain / cost)[~free].max()) if not free.all() else 0.0
    gamma = _gamma(kept_gain + float(gain[free].sum()), kept_cost, best)
    while True:
        worth = free | (gain >= gamma * TIE * cost)
        total = kept_cost + float(cost[worth].sum())
        following = (kept_gain + float(gain[worth].sum())) / total if total > 0 else gamma
        if following <= gamma:
            return worth
        gamma = following


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

    The same as `best_subset` where all weights of a layer cost the same, without a cost per weight. Where
    more than `room` are worth it, those with the best ratios are taken: the algorithm stopped early.
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
    pool = np.concatenate(list(ratios.values()))
    border = np.partition(pool, pool.size - room)[pool.size - room] if room > 0 else np.inf
    left = room - int(np.count_nonzero(pool > border))
    for name, values in ratios.items():
        ties = min(left, int(np.count_nonzero(values == border)))
        counts[name] = int(np.count_nonzero(values > border)) + ties
        left -= ties
    return counts


def reconfigure(
    weights: Mapping[str, Tensor],
    importance: Mapping[str, Tensor],
    masks: Masks,
    time_model: TimeModel,
    *,
    fraction: float,
    scope: str = "layer",
    fixed_gain: float = 0.0,
    max_density: float | None = None,
) -> dict[str, Tensor]:
    """Return the next masks: Algorithm 2 where T is linear, else Algorithm 3, within the hard size limit.

    Args:
        fraction: f(r), the part of the live weights that may be pruned, those with smallest |w|.
        scope: "layer" or "global": whether that part is taken of each layer or of the whole model.
        fixed_gain: summed importance of what is never pruned (biases, normalisation); its time is in c.
        max_density: live / prunable weights that may not be exceeded; without it there is no limit.
    """
    protected = protected_masks(weights, masks, fraction, scope)
    allowed = allowed_weights(max_density, sum(mask.numel() for mask in masks.values()))
    counts = {name: int(mask.count_nonzero()) for name, mask in protected.items()}
    room = allowed - sum(counts.values())
    try:
        time_model.seconds(counts)
    except KeyError as missing:
        raise ValueError(f"the time model has no layer {missing}; it was made for another model") from None
    if room <= 0:
        return without_smallest(weights, protected, -room)
    kept_gain = fixed_gain
    candidates = {}
    for name, mask in protected.items():
        gains, stays = _importance_of(name, importance[name], mask), mask.reshape(-1).numpy()
        kept_gain += _total(np.compress(stays, gains))
        candidates[name] = np.compress(~stays, gains)
    if isinstance(time_model, LinearTime):
        added = best_of_layers(candidates, time_model, kept_gain, counts, room)
    else:
        added = best_counts(candidates, time_model, kept_gain, counts, room)
    return {name: _with_largest(mask, candidates[name], added[name]) for name, mask in protected.items()}


def _importance_of(name: str, importance: Tensor, mask: Tensor) -> Floats:
    """Return the importance in row-major order, checked."""
    if importance.shape != mask.shape:
        raise ValueError(
            f"importance of {name} has shape {tuple(importance.shape)}, must be {tuple(mask.shape)}"
        )
    gains: Floats = importance.detach().reshape(-1).numpy()
    if gains.size and not 0 <= gains.min() <= gains.max() < np.inf:
        raise ValueError(f"importance of {name} must be finite and not negative")
    return gains


def _with_largest(mask: Tensor, candidates: Floats, count: int) -> Tensor:
    """Return the mask with `count` candidates more, those with the largest gain; of equals the first."""
    result = mask.reshape(-1).numpy().copy()
    chosen = np.ones(candidates.size, dtype=bool)
    if count < candidates.size:
        border = (
            np.partition(candidates, candidates.size - count)[candidates.size - count] if count else np.inf
        )
        chosen = candidates > border
        ties = np.flatnonzero(candidates == border)
        chosen[ties[: count - int(np.count_nonzero(chosen))]] = True
    result[~result] = chosen
    return torch.from_numpy(result).reshape(mask.shape)


def _total(values: Floats) -> float:
    return float(values.sum(dtype=np.float64))
