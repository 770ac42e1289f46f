"""A pruning method of your own: a warm-up at full size, then the largest weights of each layer, once.

From this folder:

    prunefl compare digits --methods prunefl,conventional,own_pruner:after_warm_up --seeds 1

To keep a method in the package instead, put it into src/prunefl/pruners/ and its name into the dict there.
"""

from dataclasses import dataclass

from prunefl.config import Config
from prunefl.methods import Chosen, Pruner, Seen
from prunefl.methods.survivors import (
    given_density,
    keep_largest_by_layer,
    layer_targets,
    magnitudes,
    sizes_of,
)


@dataclass(frozen=True)
class AfterWarmUp(Pruner):
    """Prunes once, after `rounds` rounds. Keep no state here: what changes belongs into Memory.

    Pruner has more questions, with answers that suit this method: `initial` (does one client prune first? no),
    `first` (the masks of round 1: all weights live) and `ask` (what do clients report? nothing).
    """

    density: float
    rounds: int

    def next(self, seen: Seen) -> Chosen:
        """Return new masks after the warm-up, and the same ones ever after."""
        if seen.round != self.rounds:
            return Chosen(seen.masks, seen.memory)
        counts = layer_targets(self.density, sizes_of(seen.masks))
        return Chosen(keep_largest_by_layer(magnitudes(seen.weights, seen.masks), seen.masks, counts))


def after_warm_up(config: Config) -> AfterWarmUp:
    """Return the method for a config; a tenth of the rounds is warm-up."""
    return AfterWarmUp(given_density(config), max(1, config.run.rounds // 10))
