"""Conventional federated learning: the full model, never pruned (FedAvg)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import nn

from prunefl.masks import full_masks
from prunefl.messages import Ask, InitialPlan
from prunefl.pruners import Chosen, Memory, Pruner, Seen

if TYPE_CHECKING:
    from prunefl.config import Config


class Conventional:
    """Asks nothing, changes nothing."""

    def initial(self) -> InitialPlan | None:
        return None

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        return Chosen(full_masks(model, names))

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask()

    def next(self, seen: Seen) -> Chosen:
        return Chosen(seen.masks, seen.memory)


def conventional(config: "Config") -> Pruner:
    """Return FedAvg on the full model."""
    return Conventional()
