"""Iterative pruning: twenty magnitude prunings in the first half of the rounds, every layer alike.

The rounds are those of `pruning.horizon`: a run that is cut short sees as much of the schedule as the paper's had then.
"""

from prunefl.core import schedule
from prunefl.core.select import keep_largest_by_layer, layer_targets, magnitudes
from prunefl.methods.base import Chosen, Method, Seen

TIMES = 20


def count_prunings(round: int, rounds: int) -> int:
    """Return how many of the prunings are due after `round`; the last falls on rounds / 2."""
    return min(TIMES, 2 * TIMES * round // rounds)


class Iterative(Method):
    """Each pruning keeps density^(1/20) of every layer."""

    name = "iterative"
    label = "Iterative pruning"
    colours, dash, place = ("#7a4fb0", "#b894ee"), "9 3", 5
    needs_density = True
    tied_to_rounds = "prunes in the first half of all rounds"

    def next(self, seen: Seen) -> Chosen:
        rounds, masks = schedule.horizon(self.config), seen.state.masks
        done = count_prunings(seen.round, rounds)
        if done == count_prunings(seen.round - 1, rounds):
            return Chosen(masks, seen.memory)
        counts = layer_targets(self.config.pruning.density ** (done / TIMES), masks)
        return Chosen(keep_largest_by_layer(masks, magnitudes(seen.state.values, masks), counts), seen.memory)
