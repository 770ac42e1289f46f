"""FedDST: clients exchange weights by themselves; the server averages what each mask holds and re-prunes.

Bibikar et al. 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from prunefl.core import average
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.select import keep_largest_by_layer, largest, magnitudes
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import (
    Chosen,
    Combined,
    Method,
    Numbers,
    Received,
    Seen,
    Steps,
    Update,
    Work,
)
from prunefl.methods.erk import erk_masks
from prunefl.methods.exchange import exchanged_share


@dataclass(frozen=True)
class Swap(Work):
    """Exchange this share of each layer's live weights for others before training."""

    share: float = 0.0


class FedDST(Method):
    """The layers' counts are those of the first masks, kept for the whole run."""

    name = "feddst"
    label = "FedDST"
    colours, dash, place = ("#00838f", "#4dd0dd"), "6 2", 8
    looks_at_clients = "clients hold masks of their own"
    needs_density = True
    tied_to_rounds = "exchanges fewer and fewer weights until the last round"
    averages_itself = True
    works = (Swap,)

    def first(self, network: Network) -> Chosen:
        masks = erk_masks(network, self.config.pruning.density, self.config.run.seed)
        return Chosen(masks, Memory(numbers=masks.counts))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        share = exchanged_share(self, round)
        return Swap(own_masks=share > 0, share=share)

    def train(self, work: Work, local: Local) -> Update:
        assert isinstance(work, Swap)
        batches = local.batches()
        if work.share:
            # before training, so that a new weight has a value when the server chooses by magnitude
            gradient = local.gradient(batches[:1], local.received.masks.shapes)
            local.replace_state(swap(local.received, gradient, work.share))
        trained = local.steps(batches)
        return Update(local.state, trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        assert isinstance(work, Swap)
        swapped = [Steps(1, live, full_gradient=True)] if work.share else []
        return [Steps(self.config.training.local_steps, live), *swapped]

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        if not work.own_masks:
            return super().combine(work, start, updates, memory)
        states, weights = [update.state for update in updates], [update.share for update in updates]
        return Combined(average.mean_over_holders(states, weights), memory)

    def next(self, seen: Seen) -> Chosen:
        counts, masks = cast(Counts, seen.memory.numbers), seen.state.masks
        if masks.counts == dict(counts):
            return Chosen(masks, seen.memory)
        sizes = magnitudes(seen.state.values, masks)
        return Chosen(keep_largest_by_layer(masks, sizes, counts), seen.memory)


def swap(state: SparseState, gradient: Arrays, share: float) -> SparseState:
    """Return the state with each layer's smallest live |w| exchanged for the largest pruned |g| (RigL)."""
    masks = {}
    for name, mask in state.masks.items():
        live = mask.reshape(-1)
        count = min(int(share * state.masks.counts[name]), int(np.count_nonzero(~live)))
        new = live.copy()
        new[live] = ~largest(-np.abs(state.values[name]), count)
        new[~live] = largest(np.abs(gradient[name]).reshape(-1)[~live], count)
        masks[name] = new.reshape(mask.shape)
    return state.remask(Masks(masks))
