"""FedRTS: which weights live is drawn from what all rounds so far have said of each, not decided by the last one.

Huang et al. 2025: Thompson sampling. Each weight has a Beta distribution of being worth its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.randomness import lots
from prunefl.core.select import largest
from prunefl.core.state import Array, SparseState
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
from prunefl.methods.candidates import count_share, mark_steepest, mean_under
from prunefl.methods.erk import erk_masks
from prunefl.methods.exchange import exchanged_share

TRUST = 0.5
"""Weight of what the aggregated model says against what the clients say, each by itself (γ)."""

STEP = 10.0
"""How much one round adds to what is known of a weight (λ)."""

GOOD, BAD = "good.", "bad."


@dataclass(frozen=True)
class Vote(Work):
    """Beside training: mark the steepest pruned places, this share of each layer's live weights in number."""

    share: float = 0.0


class FedRTS(Method):
    """The layers' counts are those of the first masks, kept for the whole run."""

    name = "fedrts"
    label = "FedRTS"
    colours, dash, place = ("#2e7d32", "#7ccf80"), "7 3", 17
    needs_density = True
    averages_itself = True
    looks_at_clients = "clients hold masks of their own"
    tied_to_rounds = "exchanges fewer and fewer weights until the last round"
    works = (Vote,)

    def first(self, network: Network) -> Chosen:
        masks = erk_masks(network, self.config.pruning.density, self.config.run.seed)
        # Beta(1, 1): nothing is known yet of any weight
        known = {
            f"{kind}{name}": np.ones(s, np.float32)
            for kind in (GOOD, BAD)
            for name, s in masks.shapes.items()
        }
        return Chosen(masks, Memory(arrays=known))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        share = exchanged_share(self, round)
        return Vote(own_masks=share > 0, share=share)

    def train(self, work: Work, local: Local) -> Update:
        assert isinstance(work, Vote)
        batches = local.batches()
        trained = local.steps(batches)
        if not work.share:
            return Update(local.state, trained.loss)
        state = local.state
        gradient = local.gradient(batches[-1:], state.masks.shapes)
        return Update(mark_steepest(state, gradient, count_share(state.masks, work.share)), trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        assert isinstance(work, Vote)
        marked = [Steps(1, live, full_gradient=True)] if work.share else []
        return [Steps(self.config.training.local_steps, live), *marked]

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        return Combined(mean_under(start.masks, updates), memory)

    def next(self, seen: Seen) -> Chosen:
        work, masks = seen.work, seen.state.masks
        assert isinstance(work, Vote)
        if not work.share:
            return Chosen(masks, seen.memory)
        source, chosen, known = lots("fedrts", self.config.run.seed, seen.round), {}, {}
        outcome = outcomes(seen.state, seen.updates, count_share(masks, work.share))
        for name, mask in masks.items():
            good = seen.memory.arrays[GOOD + name] + np.float32(STEP) * outcome[name]
            bad = seen.memory.arrays[BAD + name] + np.float32(STEP) * (1 - outcome[name])
            known[GOOD + name], known[BAD + name] = good, bad
            drawn = source.beta(good.reshape(-1), bad.reshape(-1))
            chosen[name] = largest(drawn, masks.counts[name]).reshape(mask.shape)
        return Chosen(Masks(chosen), Memory(arrays=known))


def outcomes(mean: SparseState, updates: Sequence[Received], counts: Mapping[str, int]) -> dict[str, Array]:
    """Return how good each place was in this round, from 0 to 1, by layer.

    A live weight is good where it is not among the layer's smallest |w|: in the mean, and at each client. A pruned one
    is good at clients that marked it; the mean says nothing of it.
    """
    found = {}
    for name, mask in mean.masks.items():
        stays = mean.masks.counts[name] - counts[name]
        by_clients = np.zeros(mask.shape, np.float32)
        for update in updates:
            own = np.zeros(mask.shape, np.float32)
            own[mask] = largest(np.abs(update.state.dense(name)[mask]), stays)
            own[~mask] = update.state.masks[name][~mask]
            by_clients += np.float32(update.share) * own
        by_mean = by_clients.copy()
        by_mean[mask] = largest(np.abs(mean.values[name]), stays)
        found[name] = np.float32(TRUST) * by_mean + np.float32(1 - TRUST) * by_clients
    return found
