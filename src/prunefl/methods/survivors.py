"""Keep the best-scored weights, exactly as many as asked: what every baseline's choice comes down to."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from prunefl.core.masks import Masks, live_counts
from prunefl.methods import Chosen, Pruner

if TYPE_CHECKING:
    from prunefl.config import Config

Array = np.ndarray[Any, Any]
Choose = Callable[[nn.Module, Sequence[str], Sequence[int]], Masks]


@dataclass(frozen=True)
class Fixed(Pruner):
    """A method that chooses its masks before the first round and keeps them."""

    choose: Choose

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        return Chosen(self.choose(model, names, input_shape))


class NoDensity(ValueError):
    """A fixed-size method was not told its density."""


def given_density(config: "Config") -> float:
    """Return the density that a fixed-size method must be told."""
    if config.pruning.density <= 0:
        raise NoDensity(
            f"pruning.density={config.pruning.density}, must be > 0 for run.method={config.run.method!r}: "
            "give it, or let `prunefl compare` take the density that PruneFL finds"
        )
    return config.pruning.density


def target_count(density: float, total: int) -> int:
    """Return density * total as a whole number of weights, one at least."""
    return max(1, round(density * total))


def layer_targets(density: float, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that give each layer this density."""
    return {name: target_count(density, size) for name, size in sizes.items()}


def sizes_of(masks: Masks) -> dict[str, int]:
    """Return each layer's number of weights, live or not."""
    return {name: mask.numel() for name, mask in masks.items()}


def magnitudes(weights: Mapping[str, Tensor], names: Masks | Sequence[str]) -> dict[str, Tensor]:
    """Return |w| of the named weights."""
    return {name: weights[name].detach().abs() for name in names}


def keep_largest(scores: Mapping[str, Tensor], among: Masks, count: int) -> dict[str, Tensor]:
    """Return masks of the `count` best-scored weights of all layers together; of equals, the earlier."""
    # numpy: a selection by a mask takes torch ten times as long
    places = {name: mask.numpy() for name, mask in among.items()}
    chosen = _largest(
        np.concatenate([scores[n].detach().numpy()[place] for n, place in places.items()]), count
    )
    kept, start = {}, 0
    for name, place in places.items():
        end = start + int(np.count_nonzero(place))
        alive = np.zeros_like(place)
        alive[place] = chosen[start:end]
        kept[name], start = torch.from_numpy(alive), end
    return kept


def keep_largest_by_layer(
    scores: Mapping[str, Tensor], among: Masks, counts: Mapping[str, int]
) -> dict[str, Tensor]:
    """Return masks of each layer's `counts[name]` best-scored weights."""
    return {
        name: keep_largest({name: scores[name]}, {name: mask}, counts[name])[name]
        for name, mask in among.items()
    }


def _largest(values: Array, count: int) -> Array:
    """Return which `count` of the values are largest; NaN counts as the smallest."""
    if count >= values.size or count <= 0:
        return np.full(values.size, count > 0)
    if np.isnan(values).any():
        values = np.where(np.isnan(values), -np.inf, values)
    # a selection is linear where a sort of 10^7 weights takes a second
    threshold = np.partition(values, values.size - count)[values.size - count]
    keep: Array = values > threshold
    ties = np.flatnonzero(values == threshold)
    keep[ties[: count - int(keep.sum())]] = True
    return keep


def exchange(
    masks: Masks, weights: Mapping[str, Tensor], growth: Mapping[str, Tensor], fraction: float
) -> dict[str, Tensor]:
    """Return masks in which each layer's smallest |w| made room for the best of `growth`; counts stay.

    Args:
        growth: score of each position; as in RigL, one that was just dropped may win its place back.
        fraction: share of a layer's live weights to drop.
    """
    live = live_counts(masks)
    kept_counts = {name: count - int(fraction * count) for name, count in live.items()}
    kept = keep_largest_by_layer(magnitudes(weights, masks), masks, kept_counts)
    places = {name: ~mask for name, mask in kept.items()}
    room = {name: live[name] - kept_counts[name] for name in kept}
    grown = keep_largest_by_layer(growth, places, room)
    return {name: kept[name] | grown[name] for name in kept}


def cosine_share(share: float, round: int, rounds: int) -> float:
    """Return RigL's share to exchange in a round: cosine decay, and none in the last quarter."""
    end = 0.75 * rounds
    return 0.0 if round >= end else share / 2 * (1 + float(np.cos(np.pi * round / end)))


def stream(*words: str | int) -> torch.Generator:
    """Return a generator of its own for these words, such as a method, the seed and the round."""
    text = "/".join(map(str, words)).encode()
    seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return torch.Generator().manual_seed(seed)
