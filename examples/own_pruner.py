"""A pruning method of your own: a warm-up at full size, then the largest weights of each layer, once.

From this folder:

    prunefl compare digits --methods prunefl,conventional,own_pruner:after_warm_up --seeds 1

To keep a method in the package instead, put it into src/prunefl/pruners/ and its name into the dict there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from prunefl.config import Config
from prunefl.masks import full_masks
from prunefl.messages import Ask, InitialPlan
from prunefl.pruners import Chosen, Memory, Seen
from prunefl.pruners.survivors import (
    given_density,
    keep_largest_by_layer,
    layer_targets,
    magnitudes,
    sizes_of,
)


@dataclass(frozen=True)
class AfterWarmUp:
    """Prunes once, after `rounds` rounds. Keep no state here: what changes belongs into Memory."""

    density: float
    rounds: int

    def initial(self) -> InitialPlan | None:
        """No client prunes before the first round."""
        return None

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        """Start with the full model."""
        return Chosen(full_masks(model, names))

    def ask(self, round: int, memory: Memory) -> Ask:
        """Clients only train; Ask(report="gradient") would have them report one."""
        return Ask()

    def next(self, seen: Seen) -> Chosen:
        """Return new masks after the warm-up, and the same ones ever after."""
        if seen.round != self.rounds:
            return Chosen(seen.masks, seen.memory)
        counts = layer_targets(self.density, sizes_of(seen.masks))
        return Chosen(keep_largest_by_layer(magnitudes(seen.weights, seen.masks), seen.masks, counts))


def after_warm_up(config: Config) -> AfterWarmUp:
    """Return the method for a config; a tenth of the rounds is warm-up."""
    return AfterWarmUp(given_density(config), max(1, config.run.rounds // 10))
