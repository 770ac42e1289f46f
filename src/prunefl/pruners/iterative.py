"""Iterative pruning: twenty magnitude prunings in the first half of the rounds, every layer alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from prunefl.masks import full_masks
from prunefl.messages import Ask, InitialPlan
from prunefl.pruners import Chosen, Memory, Pruner, Seen
from prunefl.pruners.survivors import (
    given_density,
    keep_largest_by_layer,
    layer_targets,
    magnitudes,
    sizes_of,
)

if TYPE_CHECKING:
    from prunefl.config import Config

TIMES = 20


def prunings_done(round: int, rounds: int) -> int:
    """Return how many of the prunings are due after `round`; the last falls on rounds / 2."""
    return min(TIMES, 2 * TIMES * round // rounds)


@dataclass(frozen=True)
class Iterative:
    """Each pruning keeps density^(1/20) of every layer."""

    density: float
    rounds: int

    def initial(self) -> InitialPlan | None:
        return None

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        return Chosen(full_masks(model, names))

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask()

    def next(self, seen: Seen) -> Chosen:
        done = prunings_done(seen.round, self.rounds)
        if done == prunings_done(seen.round - 1, self.rounds):
            return Chosen(seen.masks, seen.memory)
        counts = layer_targets(self.density ** (done / TIMES), sizes_of(seen.masks))
        scores = magnitudes(seen.weights, seen.masks)
        return Chosen(keep_largest_by_layer(scores, seen.masks, counts), seen.memory)


def iterative(config: "Config") -> Pruner:
    """Return iterative pruning down to `pruning.density` over `run.rounds`."""
    return Iterative(given_density(config), config.run.rounds)
