"""SNIP: prune once, after the first round, by how much a weight's removal would change the loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from prunefl.core.masks import full_masks
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.methods.survivors import given_density, keep_largest, sizes_of, target_count
from prunefl.rounds.messages import Ask

if TYPE_CHECKING:
    from prunefl.config import Config


@dataclass(frozen=True)
class Snip(Pruner):
    """The first round runs at full size and is charged so; the masks stay fixed after it."""

    density: float

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        # the gradient that clients report is taken at these weights, so the score must use them too
        parameters = dict(model.named_parameters())
        start = {name: parameters[name].detach().clone() for name in names}
        return Chosen(full_masks(model, names), Memory(tensors=start))

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask(report="gradient") if round == 1 else Ask()

    def next(self, seen: Seen) -> Chosen:
        if seen.round != 1:
            return Chosen(seen.masks, seen.memory)
        assert seen.statistic is not None
        start = seen.memory.tensors
        scores = {name: (start[name] * seen.statistic[name]).abs() for name in seen.masks}
        count = target_count(self.density, sum(sizes_of(seen.masks).values()))
        return Chosen(keep_largest(scores, seen.masks, count))


def snip(config: "Config") -> Pruner:
    """Return SNIP at `pruning.density`."""
    return Snip(given_density(config))
