"""Which weights a reconfiguration may change, the set P, and how large the model may be (SPEC 3 and 6)."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunefl.core.masks import Masks


def prunable_fraction(round_index: int, first: float = 0.3, halves_every: float = 10_000) -> float:
    """Return f(r) = 0.3·0.5^(r/10000), the fraction of the live weights that may be pruned in round r."""
    return float(first * 0.5 ** (round_index / halves_every))


def size_limit(round_index: int, rounds: int, limit: float | None, target: float | None) -> float | None:
    """Return d_max(r) = (r·d_t + (r_max − r)·d_l)/r_max, or None where there is no limit.

    A limit without a target holds all the way; a target without a limit comes down from the full model.
    Masks chosen now stay until the next reconfiguration, and the limit falls meanwhile: ask for the round at
    which that one happens, not for the present one.
    """
    for name, value in (("limit", limit), ("target", target)):
        if value is not None and not 0.0 < value <= 1.0:
            raise ValueError(f"{name}={value}, must be a density in (0, 1]")
    if target is None:
        return limit
    start = 1.0 if limit is None else limit
    if target > start:
        raise ValueError(f"target={target}, must be <= limit={limit}")
    if round_index >= rounds:
        return target
    return (max(round_index, 0) * target + (rounds - max(round_index, 0)) * start) / rounds


def allowed_weights(max_density: float | None, total: int) -> int:
    """Return how many of `total` prunable weights may live: never more than max_density of them."""
    # 0.05 of 6,601,500 is 330,075 and not one fewer because 0.05 has no exact binary form
    return total if max_density is None else min(total, int(max_density * total * (1 + 2**-50)))


def protected_masks(
    weights: Mapping[str, Tensor], masks: Masks, fraction: float, scope: str
) -> dict[str, Tensor]:
    """Return which weights must stay: the live ones but for the fraction with smallest |w|."""
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction={fraction}, must be between 0 and 1")
    if scope == "global":
        live = sum(int(mask.count_nonzero()) for mask in masks.values())
        return without_smallest(weights, masks, round(fraction * live))
    if scope != "layer":
        raise ValueError(f"scope={scope!r}, must be 'layer' or 'global'")
    protected: dict[str, Tensor] = {}
    for name, mask in masks.items():
        count = round(fraction * int(mask.count_nonzero()))
        protected |= without_smallest(weights, {name: mask}, count)
    return protected


def without_smallest(weights: Mapping[str, Tensor], masks: Masks, count: int) -> dict[str, Tensor]:
    """Return the masks less exactly `count` live weights with smallest |w|; of equals the first ones go."""
    pools = {name: _live_magnitudes(name, weights[name], mask) for name, mask in masks.items()}
    pool = np.concatenate(list(pools.values())) if len(pools) > 1 else next(iter(pools.values()), np.empty(0))
    if count <= 0 or pool.size == 0:
        return {name: mask.clone() for name, mask in masks.items()}
    border = np.partition(pool, min(count, pool.size) - 1)[min(count, pool.size) - 1]
    ties_left = count - int(np.count_nonzero(pool < border))
    kept = {}
    for name, mask in masks.items():
        stays = pools[name] > border
        ties = np.flatnonzero(pools[name] == border)
        stays[ties[ties_left:]] = True
        ties_left -= min(ties_left, ties.size)
        flat = mask.reshape(-1).numpy().copy()
        flat[flat] = stays
        kept[name] = torch.from_numpy(flat).reshape(mask.shape)
    return kept


def _live_magnitudes(name: str, weight: Tensor, mask: Tensor) -> NDArray[np.floating]:
    """Return |w| of the live weights in row-major order."""
    if weight.shape != mask.shape:
        raise ValueError(f"weight {name} has shape {tuple(weight.shape)}, its mask {tuple(mask.shape)}")
    magnitude: NDArray[np.floating] = np.abs(
        np.compress(mask.reshape(-1).numpy(), weight.detach().reshape(-1).numpy())
    )
    return magnitude
