"""The k largest: what every choice of weights comes down to, here once, exact to the last tie."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunefl.core.masks import Mask, Masks

Scores = NDArray[Any]


def largest(values: Scores, count: int) -> Mask:
    """Return which `count` of the values are largest; of equals the earlier; NaN counts as the smallest."""
    if count >= values.size or count <= 0:
        return np.full(values.size, count > 0)
    if np.isnan(values.min()):
        return largest(np.where(np.isnan(values), -np.inf, values), count)
    border = kth_largest(values, count)
    chosen: Mask = values > border
    ties = np.flatnonzero(values == border)
    chosen[ties[: count - int(np.count_nonzero(chosen))]] = True
    return chosen


def kth_largest(values: Scores, k: int) -> Any:
    """Return the k-th largest value, 0 < k <= size, none of them NaN."""
    # what equals the least or the greatest is set aside: numpy's selection, linear where a sort of 10^7 weights takes a
    # second, takes twenty times as long where most are equal, such as the zeros of channels without a gradient
    least, greatest = values.min(), values.max()
    k -= int(np.count_nonzero(values == greatest))
    if k <= 0:
        return greatest
    between = np.compress((values > least) & (values < greatest), values)
    if k > between.size:
        return least
    return np.partition(between, between.size - k)[between.size - k]


def largest_together(pools: Mapping[str, Scores], count: int) -> dict[str, Mask]:
    """Return which values of all pools together are the `count` largest; of equals the earlier."""
    if len(pools) == 1:
        return {name: largest(values, count) for name, values in pools.items()}
    chosen = largest(np.concatenate(list(pools.values())), count)
    ends = np.cumsum([values.size for values in pools.values()])[:-1]
    return dict(zip(pools, np.split(chosen, ends), strict=True))


def keep(masks: Masks, stays: Mapping[str, Mask]) -> Masks:
    """Return the masks with only those of their live weights that stay.

    Args:
        stays: of each layer's live weights in row-major order, bool (live,).
    """
    kept = {}
    for name, mask in masks.items():
        flat = mask.reshape(-1).copy()
        flat[flat] = stays[name]
        kept[name] = flat.reshape(mask.shape)
    return Masks(kept)


def keep_largest(masks: Masks, scores: Mapping[str, Scores], count: int) -> Masks:
    """Return the masks with the `count` best-scored live weights of all layers together.

    Args:
        scores: of each layer's live weights in row-major order, (live,).
    """
    return keep(masks, largest_together({name: scores[name] for name in masks}, count))


def keep_largest_by_layer(masks: Masks, scores: Mapping[str, Scores], counts: Mapping[str, int]) -> Masks:
    """Return the masks with each layer's `counts[name]` best-scored live weights."""
    return keep(masks, {name: largest(scores[name], counts[name]) for name in masks})


def drop_smallest(masks: Masks, scores: Mapping[str, Scores], count: int) -> Masks:
    """Return the masks less the `count` live weights with the smallest scores; of equals the earlier go, NaN last."""
    gone = largest_together({name: -scores[name] for name in masks}, count)
    return keep(masks, {name: ~chosen for name, chosen in gone.items()})


def magnitudes(values: Mapping[str, Scores], masks: Masks) -> dict[str, Scores]:
    """Return |w| of the live values of each layer."""
    return {name: np.abs(values[name]) for name in masks}


def target_count(density: float, total: int) -> int:
    """Return density * total as a whole number of weights, one at least."""
    return max(1, round(density * total))


def layer_targets(density: float, masks: Masks) -> dict[str, int]:
    """Return the counts that give each layer this density."""
    return {name: target_count(density, size) for name, size in masks.sizes.items()}
