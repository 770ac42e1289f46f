"""FedMef: before weights are pruned, clients press what they know into those that stay.

Huang et al. 2024, budget-aware extrusion: in the round before an exchange, the smallest weights are drawn to zero while
the model trains on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.core.masks import Counts, Mask
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.select import largest
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
from prunefl.methods.candidates import count_share, mark_steepest, mean_marked, mean_under, trade
from prunefl.methods.erk import erk_masks
from prunefl.methods.exchange import exchanged_share

SHRINKS = 0.5
"""Share of a marked weight that the penalty alone takes off in one step."""

FLOPS_PER_WEIGHT = 2
"""Per live weight and step: the penalty's gradient and its sum with the loss's."""


@dataclass(frozen=True)
class Extrude(Work):
    """Draw this share of each layer's live weights, the smallest, to zero while training; mark as many steep places."""

    share: float = 0.0


class FedMef(Method):
    """The layers' counts are those of the first masks, kept for the whole run."""

    name = "fedmef"
    label = "FedMef"
    colours, dash, place = ("#ad1457", "#f48fb1"), "2 3", 18
    needs_density = True
    averages_itself = True
    looks_at_clients = "clients hold masks of their own"
    needs_plain_sgd = True
    tied_to_rounds = "exchanges fewer and fewer weights until the last round"
    works = (Extrude,)

    def first(self, network: Network) -> Chosen:
        return Chosen(erk_masks(network, self.config.pruning.density, self.config.run.seed))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        share = exchanged_share(self, round)
        return Extrude(own_masks=share > 0, share=share)

    def train(self, work: Work, local: Local) -> Update:
        assert isinstance(work, Extrude)
        batches = local.batches()
        if not work.share:
            trained = local.steps(batches)
            return Update(local.state, trained.loss)
        small = smallest(local.received, work.share)
        # rate · penalty is what a step takes off: the same share of a weight at any rate
        strength = np.float32(SHRINKS / local.rate)

        def penalty(state: SparseState) -> Arrays:
            return {name: strength * small[name] * state.values[name] for name in small}

        trained = local.steps(batches, penalty=penalty)
        state = local.state
        gradient = local.gradient(batches[-1:], state.masks.shapes)
        return Update(mark_steepest(state, gradient, count_share(state.masks, work.share)), trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        assert isinstance(work, Extrude)
        steps = self.config.training.local_steps
        if not work.share:
            return [Steps(steps, live)]
        extra = FLOPS_PER_WEIGHT * sum(live.values())
        return [Steps(steps, live, extra_flops=extra), Steps(1, live, full_gradient=True)]

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        return Combined(mean_under(start.masks, updates), memory)

    def next(self, seen: Seen) -> Chosen:
        work, masks = seen.work, seen.state.masks
        assert isinstance(work, Extrude)
        if not work.share:
            return Chosen(masks, seen.memory)
        growth = {name: np.abs(mean) for name, mean in mean_marked(masks, seen.updates).items()}
        return Chosen(trade(seen.state, growth, count_share(masks, work.share)), seen.memory)


def smallest(state: SparseState, share: float) -> dict[str, Mask]:
    """Return which of each layer's live weights are the smallest, (live,)."""
    return {
        name: largest(-np.abs(state.values[name]), count)
        for name, count in count_share(state.masks, share).items()
    }
