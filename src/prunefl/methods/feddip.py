"""FedDIP: ever fewer weights, ever stronger regularisation, and pruned weights that come back by their own gradients.

Long et al. 2023: dynamic pruning with error feedback, incremental regularisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.core import importance, schedule
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.select import keep_largest, magnitudes, target_count
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local, Sums
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
from prunefl.methods.candidates import mean_under_union
from prunefl.methods.erk import erk_masks

START = 0.5
"""Density of the first masks."""

SEGMENTS, WEAKEST, STRONGEST = 20, 5e-4, 1e-3
"""The regularisation's weight rises in so many steps: none in the first, then from the weakest to the strongest."""

FLOPS_PER_WEIGHT = 4
"""Per live weight and step: a layer's norm, its gradient and the sum with the loss's."""


@dataclass(frozen=True)
class Regularised(Work):
    """Train with Σ‖w‖ over the layers at this strength; with a density, let pruned weights compete for a place."""

    strength: float = 0.0
    density: float = 0.0


class FedDIP(Method):
    """Every `pruning.interval` rounds masks are chosen anew, by magnitude over all layers."""

    name = "feddip"
    label = "FedDIP"
    colours, dash, place = ("#6a1b9a", "#ce93d8"), "5 2 5 6", 21
    needs_density = True
    averages_itself = True
    looks_at_clients = "clients hold masks of their own"
    needs_plain_sgd = True
    tied_to_rounds = "prunes more and more until the last round"
    works = (Regularised,)

    def first(self, network: Network) -> Chosen:
        return Chosen(erk_masks(network, self._density(0), self.config.run.seed))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        chooses = schedule.reconfigures(round, self.config)
        density = self._density(round) if chooses else 0.0
        return Regularised(
            own_masks=chooses, strength=strength(round, schedule.horizon(self.config)), density=density
        )

    def train(self, work: Work, local: Local) -> Update:
        assert isinstance(work, Regularised)
        weight = np.float32(work.strength)

        def penalty(state: SparseState) -> Arrays:
            norms = {n: np.float32(max(1e-12, float(np.linalg.norm(state.values[n])))) for n in state.masks}
            return {n: weight / norms[n] * state.values[n] for n in state.masks}

        sums = importance.empty_sums(local.received.masks.shapes) if work.density else None
        trained = local.steps(
            local.batches(), Sums(sums, squared=False) if sums else None, penalty if work.strength else None
        )
        state = local.state
        if sums is None:
            return Update(state, trained.loss)
        return Update(compete(state, sums, local.rate, work.density), trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        assert isinstance(work, Regularised)
        extra = FLOPS_PER_WEIGHT * sum(live.values()) if work.strength else 0
        steps = self.config.training.local_steps
        return [Steps(steps, live, full_gradient=work.density > 0, extra_flops=extra)]

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        if not work.own_masks:
            return super().combine(work, start, updates, memory)
        return Combined(mean_under_union(updates), memory)

    def next(self, seen: Seen) -> Chosen:
        work, masks = seen.work, seen.state.masks
        assert isinstance(work, Regularised)
        if not work.density:
            return Chosen(masks, seen.memory)
        count = target_count(work.density, masks.size)
        return Chosen(keep_largest(masks, magnitudes(seen.state.values, masks), count), seen.memory)

    def _density(self, round: int) -> float:
        end = self.config.pruning.density
        return schedule.cubic(round, schedule.horizon(self.config), max(START, end), end)


def strength(round: int, rounds: int) -> float:
    """Return the regularisation's weight in a round, the first being 1."""
    segment = min(SEGMENTS - 1, SEGMENTS * (round - 1) // rounds)
    return 0.0 if not segment else WEAKEST + (STRONGEST - WEAKEST) * (segment - 1) / (SEGMENTS - 1)


def compete(state: SparseState, sums: Arrays, rate: float, density: float) -> SparseState:
    """Return the largest of all weights, where a pruned one is what its gradients made of zero: error feedback."""
    everywhere = Masks.full(state.masks.shapes)
    dense = {
        name: np.where(mask, state.dense(name), np.float32(-rate) * sums[name])
        for name, mask in state.masks.items()
    }
    whole = SparseState.from_dense({**state.values, **dense}, everywhere)
    count = target_count(density, everywhere.size)
    return whole.remask(keep_largest(everywhere, magnitudes(whole.values, everywhere), count))
