"""Iterative pruning: twenty magnitude prunings in the first half of the rounds, every layer alike."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from prunefl.methods import Chosen, Pruner, Seen
from prunefl.methods.survivors import (
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
class Iterative(Pruner):
    """Each pruning keeps density^(1/20) of every layer."""

    tied_to_rounds: ClassVar[str] = "prunes in the first half of all rounds"
    density: float
    rounds: int

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
