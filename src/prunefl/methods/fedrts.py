"""FedRTS: which weights live is drawn from what all rounds so far have said of each, not decided by the last one.

Huang et al. 2025: Thompson sampling. Each weight has a Beta distribution of being worth its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.randomness import lots
from prunefl.core.select import largest
from prunefl.core.state import Array, Arrays, SparseState
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
from prunefl.methods.exchange import decayed_share, exchanged_share

TRUST = 0.5
"""Weight of what the aggregated model says against what the clients say, each by itself (γ)."""

STEP = 10.0
"""How much one round adds to what is known of a weight (λ)."""

NEITHER = 0.5
"""What the aggregated model, which has no gradient, says of a pruned weight."""

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
        work, masks, share = seen.work, seen.state.masks, decayed_share(self, seen.round)
        assert isinstance(work, Vote)
        if not share:
            return Chosen(masks, seen.memory)
        # live weights are observed in every round, as in its authors' code: what has lived long is known well
        known = add_outcomes(seen.memory.arrays, masks, live_outcomes(seen.state, seen.updates, share))
        if not work.share:
            return Chosen(masks, Memory(arrays=known))
        known = add_outcomes(known, pruned_of(masks), marked_outcomes(masks, seen.updates))
        source, chosen = lots("fedrts", self.config.run.seed, seen.round), {}
        for name, mask in masks.items():
            drawn = source.beta(known[GOOD + name].reshape(-1), known[BAD + name].reshape(-1))
            chosen[name] = largest(drawn, masks.counts[name]).reshape(mask.shape)
        return Chosen(Masks(chosen), Memory(arrays=known))


def pruned_of(masks: Masks) -> Masks:
    """Return the masks of what is pruned."""
    return Masks({name: ~mask for name, mask in masks.items()})


def live_outcomes(mean: SparseState, updates: Sequence[Received], share: float) -> dict[str, Array]:
    """Return how good each live weight was in this round, from 0 to 1, by layer, (live,).

    It is good where it is not among this share of the layer's weights, the smallest: in the mean, and at each client.
    """
    counts = {name: mean.masks.counts[name] - count for name, count in count_share(mean.masks, share).items()}
    states = [update.state.remask(mean.masks) for update in updates]
    found = {}
    for name, stays in counts.items():
        by_clients = np.zeros(mean.masks.counts[name], np.float32)
        for update, state in zip(updates, states, strict=True):
            by_clients += np.float32(update.share) * largest(np.abs(state.values[name]), stays)
        by_mean = largest(np.abs(mean.values[name]), stays)
        found[name] = np.float32(TRUST) * by_mean + np.float32(1 - TRUST) * by_clients
    return found


def marked_outcomes(masks: Masks, updates: Sequence[Received]) -> dict[str, Array]:
    """Return how good each pruned weight would be, from 0 to 1, by layer, (pruned,): which clients marked it."""
    found = {}
    for name, mask in masks.items():
        by_clients = np.zeros(mask.size - masks.counts[name], np.float32)
        for update in updates:
            by_clients += np.float32(update.share) * update.state.masks[name][~mask]
        found[name] = np.float32(TRUST * NEITHER) + np.float32(1 - TRUST) * by_clients
    return found


def add_outcomes(known: Arrays, masks: Masks, outcomes: Arrays) -> dict[str, Array]:
    """Return the distributions with one more observation of each weight in these masks."""
    after: dict[str, Array] = {}
    for name, mask in masks.items():
        good, bad = known[GOOD + name].copy(), known[BAD + name].copy()
        good[mask] += np.float32(STEP) * outcomes[name]
        bad[mask] += np.float32(STEP) * (1 - outcomes[name])
        after |= {GOOD + name: good, BAD + name: bad}
    return after
