"""Static ERK: a random mask whose layers' densities follow Erdős–Rényi with kernels, never changed."""

import math
from collections.abc import Mapping

from prunefl.core.masks import Masks, Shape
from prunefl.core.network import Network
from prunefl.core.randomness import lots
from prunefl.core.select import keep_largest_by_layer, target_count
from prunefl.methods.base import Chosen, Method


class StaticERK(Method):
    """Training on a fixed random mask at `pruning.density`."""

    name = "erk"
    label = "Static ERK"
    colours, dash, place = ("#5f6b7a", "#9fb0c3"), "1 3", 11
    needs_density = True

    def first(self, network: Network) -> Chosen:
        return Chosen(erk_masks(network, self.config.pruning.density, self.config.run.seed))


def erk_masks(network: Network, density: float, seed: int) -> Masks:
    """Return random masks with ERK's counts; the same seed gives the same masks."""
    everywhere = network.full_masks
    source = lots("erk", seed)
    drawn = {name: source.uniform((size,)) for name, size in everywhere.sizes.items()}
    return keep_largest_by_layer(everywhere, drawn, erk_counts(everywhere.shapes, density))


def erk_counts(shapes: Mapping[str, Shape], density: float) -> dict[str, int]:
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
