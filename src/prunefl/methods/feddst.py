"""FedDST: clients exchange weights by themselves; the server averages what each mask holds and re-prunes.

Bibikar et al. 2022. The averaging over the masks that hold a weight is the server's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from torch import nn

from prunefl.core.masks import live_counts
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.methods.erk import erk_masks
from prunefl.methods.survivors import cosine_share, given_density, keep_largest_by_layer, magnitudes
from prunefl.rounds.messages import Ask

if TYPE_CHECKING:
    from prunefl.config import Config


@dataclass(frozen=True)
class FedDST(Pruner):
    """The layers' counts are those of the first masks, kept for the whole run."""

    tied_to_rounds: ClassVar[str] = "exchanges fewer and fewer weights until the last round"
    density: float
    seed: int
    rounds: int
    interval: int
    share: float

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        masks = erk_masks(model, names, self.density, self.seed)
        return Chosen(masks, Memory(numbers=live_counts(masks)))

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask(swap=0.0 if round % self.interval else cosine_share(self.share, round, self.rounds))

    def next(self, seen: Seen) -> Chosen:
        counts = cast(Mapping[str, int], seen.memory.numbers)
        if live_counts(seen.masks) == dict(counts):
            return Chosen(seen.masks, seen.memory)
        kept = keep_largest_by_layer(magnitudes(seen.weights, seen.masks), seen.masks, counts)
        return Chosen(kept, seen.memory)


def feddst(config: "Config") -> Pruner:
    """Return FedDST at `pruning.density`, swapping `pruning.fraction` every `pruning.interval` rounds."""
    run, pruning = config.run, config.pruning
    return FedDST(given_density(config), run.seed, run.rounds, pruning.interval, pruning.fraction)
