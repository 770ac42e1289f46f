"""Static ERK: a random mask whose layers' densities follow Erdős–Rényi with kernels, never changed."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from prunefl.core.masks import full_masks
from prunefl.methods import Pruner
from prunefl.methods.survivors import Fixed, given_density, keep_largest_by_layer, stream, target_count

if TYPE_CHECKING:
    from prunefl.config import Config


def erk_counts(shapes: Mapping[str, Sequence[int]], density: float) -> dict[str, int]:
    """Return each layer's live weights: density * N in all, shared in proportion to the sum of its sides.

    A layer of sides n_in, n_out, k, k has the raw share (n_in + n_out + k + k); one that would exceed its
    size is full, and the others share the rest.
    """
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    total = target_count(density, sum(sizes.values()))
    full: set[str] = set()
    while True:
        rest = total - sum(sizes[name] for name in full)
        sides = {name: sum(shape) for name, shape in shapes.items() if name not in full}
        wanted = {name: rest * side / sum(sides.values()) for name, side in sides.items()}
        too_large = {name for name, count in wanted.items() if count > sizes[name]}
        if not too_large:
            return _whole(wanted, rest, sizes) | {name: sizes[name] for name in full}
        full |= too_large


def _whole(wanted: Mapping[str, float], total: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return whole numbers that add up to the total, the largest remainders rounded up."""
    counts = {name: math.floor(count) for name, count in wanted.items()}
    order = sorted(wanted, key=lambda name: counts[name] - wanted[name])
    roomy = [name for name in order if counts[name] < sizes[name]]
    for name in roomy[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def erk_masks(model: nn.Module, names: Sequence[str], density: float, seed: int) -> dict[str, Tensor]:
    """Return random masks with ERK's counts; the same seed gives the same masks."""
    everywhere = full_masks(model, names)
    counts = erk_counts({name: mask.shape for name, mask in everywhere.items()}, density)
    generator = stream("erk", seed)
    lots = {name: torch.rand(mask.shape, generator=generator) for name, mask in everywhere.items()}
    return keep_largest_by_layer(lots, everywhere, counts)


def erk(config: "Config") -> Pruner:
    """Return training on a fixed random ERK mask at `pruning.density`."""
    density, seed = given_density(config), config.run.seed
    return Fixed(lambda model, names, shape: erk_masks(model, names, density, seed))
