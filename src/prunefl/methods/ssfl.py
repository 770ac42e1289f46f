"""SSFL: before training, all clients score all weights once; those best on average are trained, and never others.

Ohib et al. 2024.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.select import keep_largest, target_count
from prunefl.core.state import SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import (
    Chosen,
    Clients,
    Combined,
    Method,
    Numbers,
    Received,
    Seen,
    Steps,
    Update,
    Work,
)


@dataclass(frozen=True)
class Score(Work):
    """Report |w ⊙ g| of every weight, by the gradient over a round's batches; train nothing."""


class SSFL(Method):
    """The stage before round 1 runs at full size and is charged so; the masks stay fixed after it."""

    name = "ssfl"
    label = "SSFL"
    colours, dash, place = ("#a15c00", "#e0a458"), "8 2 2 2", 15
    looks_at_clients = "it goes by scores under masks of single clients"
    needs_density = True
    works = (Work, Score)

    @property
    def first_round(self) -> int:
        return 0

    def cohort(self, round: int, clients: Clients) -> Sequence[int]:
        if round:
            return super().cohort(round, clients)
        return [client for client in clients.members if clients.num_samples[client]]

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Work() if round else Score(report="importance", own_masks=True)

    def train(self, work: Work, local: Local) -> Update:
        if not isinstance(work, Score):
            return super().train(work, local)
        batches, received = local.batches(), local.received
        gradient = local.gradient(batches)
        scores = {name: np.zeros_like(value) for name, value in gradient.items()}
        for name, mask in received.masks.items():
            scores[name] = np.abs(gradient[name] * received.values[name].reshape(mask.shape))
        # no weight has changed: with none of them live, none is sent back
        nothing = received.remask(Masks({name: np.zeros_like(mask) for name, mask in received.masks.items()}))
        return Update(nothing, local.loss(batches), scores)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        steps = self.config.training.local_steps
        return [Steps(steps, live, full_gradient=isinstance(work, Score))]

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        if isinstance(work, Score):
            return Combined(start, memory)
        return super().combine(work, start, updates, memory)

    def next(self, seen: Seen) -> Chosen:
        masks = seen.state.masks
        if seen.statistic is None:
            return Chosen(masks, seen.memory)
        scores = {name: seen.statistic[name].reshape(-1) for name in masks}
        return Chosen(keep_largest(masks, scores, target_count(self.config.pruning.density, masks.size)))
