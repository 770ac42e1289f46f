"""DPF, a cost baseline: a pruned model goes down, a full-size gradient comes up, every round.

Lin et al. 2020, dynamic model pruning with feedback. The server updates dense weights with gradients taken at
the pruned ones, and prunes them anew by magnitude.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from prunefl.core.masks import Masks, full_masks
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.methods.survivors import given_density, keep_largest, magnitudes, sizes_of, target_count
from prunefl.rounds.messages import Ask

if TYPE_CHECKING:
    from prunefl.config import Config


@dataclass(frozen=True)
class DPF(Pruner):
    """Memory holds the dense weights where they are pruned, and zero where the clients have them."""

    density: float

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        parameters = dict(model.named_parameters())
        dense = {name: parameters[name].detach() for name in names}
        return self._pruned(dense, full_masks(model, names))[0]

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask(dense_update=True)

    def next(self, seen: Seen) -> Chosen:
        # where a weight was pruned the clients send only its change, so that the sum is the new dense weight
        dense = {name: seen.weights[name] + hidden for name, hidden in seen.memory.tensors.items()}
        everywhere = {name: torch.ones_like(mask) for name, mask in seen.masks.items()}
        chosen, live = self._pruned(dense, everywhere)
        return Chosen(chosen.masks, chosen.memory, {**seen.weights, **live})

    def _pruned(self, dense: dict[str, Tensor], everywhere: Masks) -> tuple[Chosen, dict[str, Tensor]]:
        count = target_count(self.density, sum(sizes_of(everywhere).values()))
        masks = keep_largest(magnitudes(dense, everywhere), everywhere, count)
        hidden = {name: dense[name] * ~mask for name, mask in masks.items()}
        return Chosen(masks, Memory(tensors=hidden)), {name: dense[name] * masks[name] for name in masks}


def dpf(config: "Config") -> Pruner:
    """Return dynamic pruning with feedback at `pruning.density`."""
    return DPF(given_density(config))
