"""FedTiny: clients choose among a few first masks, then one layer after another exchanges its weights.

Huang et al. 2023: selection of a coarsely pruned model by the clients' losses, then progressive pruning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prunefl.core import schedule
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.randomness import lots
from prunefl.core.select import keep_largest_by_layer, magnitudes, target_count
from prunefl.core.state import SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import (
    BadUpdate,
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
from prunefl.methods.candidates import mark_steepest, mean_marked, mean_under, trade

POOL = 0.1
"""Of the full model: what all candidates together weigh."""

SPREAD = 0.5
"""By how much a layer's density is drawn above or below the model's, as a share of it."""

STOP = 1 / 3
"""Of the rounds, after which no weight is exchanged any more."""


@dataclass(frozen=True)
class Rate(Work):
    """Report the loss of this many candidates, each made of the first weights; train nothing."""

    candidates: int = 0


@dataclass(frozen=True)
class Progress(Work):
    """Beside training: mark so many of this layer's steepest pruned places."""

    layer: str = ""
    count: int = 0


class FedTiny(Method):
    """The full first weights are sent once, before round 1: every client makes the candidates of them by itself."""

    name = "fedtiny"
    label = "FedTiny"
    colours, dash, place = ("#5d4037", "#bcaaa4"), "1 2 6 2", 19
    needs_density = True
    averages_itself = True
    looks_at_clients = "clients hold masks of their own"
    tied_to_rounds = "exchanges weights in the first third of all rounds"
    works = (Rate, Progress)

    @property
    def first_round(self) -> int:
        return 0

    @property
    def candidates(self) -> int:
        """How many first masks there are to choose from."""
        return max(2, math.ceil(POOL / self.config.pruning.density - 1e-9))

    def cohort(self, round: int, clients: Clients) -> Sequence[int]:
        if round:
            return super().cohort(round, clients)
        return [client for client in clients.members if clients.num_samples[client]]

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        if not round:
            return Rate(own_masks=True, candidates=self.candidates)
        layers = [name.removeprefix(LIVE) for name in memory.numbers if name.startswith(LIVE)]
        turn, rest = divmod(round, self.config.pruning.interval)
        share = exchanged(round, self)
        # from the last layer to the first, and again
        layer = layers[-1 - (turn - 1) % len(layers)]
        count = 0 if rest else int(share * memory.number(LIVE + layer))
        return Progress(own_masks=count > 0, layer=layer if count else "", count=count)

    def train(self, work: Work, local: Local) -> Update:
        batches, received = local.batches(), local.received
        if isinstance(work, Rate):
            losses = []
            for number in range(work.candidates):
                local.replace_state(received.remask(self.candidate(received, number)))
                losses.append(local.loss(batches))
            # no weight has changed: with none of them live, none is sent back
            nothing = received.remask(Masks({n: np.zeros_like(mask) for n, mask in received.masks.items()}))
            return Update(nothing, min(losses), numbers={"losses": losses})
        assert isinstance(work, Progress)
        trained = local.steps(batches)
        if not work.count:
            return Update(local.state, trained.loss)
        state = local.state
        gradient = local.gradient(batches[-1:], {work.layer: state.masks.shapes[work.layer]})
        return Update(mark_steepest(state, gradient, {work.layer: work.count}), trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        steps = self.config.training.local_steps
        if isinstance(work, Rate):
            # forward passes alone, a third of a step each
            return [Steps(steps / 3, self.candidate_counts(live, n)) for n in range(work.candidates)]
        assert isinstance(work, Progress)
        return [Steps(steps, live), *([Steps(1, live, full_gradient=True)] if work.count else [])]

    def check(self, work: Work, numbers: Numbers, masks: Masks) -> None:
        if not isinstance(work, Rate):
            return super().check(work, numbers, masks)
        losses = numbers.get("losses")
        if len(numbers) != 1 or not isinstance(losses, list) or len(losses) != work.candidates:
            raise BadUpdate(f"must report the losses of {work.candidates} candidates")
        if not all(math.isfinite(loss) for loss in losses):
            raise BadUpdate("reports a candidate's loss that is not a number")

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        if isinstance(work, Rate):
            return Combined(start, memory)
        return Combined(mean_under(start.masks, updates), memory)

    def next(self, seen: Seen) -> Chosen:
        work, masks = seen.work, seen.state.masks
        if isinstance(work, Rate):
            best = int(np.argmin(sum(u.share * np.asarray(u.numbers["losses"]) for u in seen.updates)))
            chosen = self.candidate(seen.state, best)
            return Chosen(chosen, Memory({LIVE + n: count for n, count in chosen.counts.items()}))
        assert isinstance(work, Progress)
        if not work.count:
            return Chosen(masks, seen.memory)
        growth = {name: np.abs(mean) for name, mean in mean_marked(masks, seen.updates).items()}
        return Chosen(trade(seen.state, growth, {work.layer: work.count}), seen.memory)

    def candidate(self, full: SparseState, number: int) -> Masks:
        """Return the masks of a candidate: each layer's largest |w|, as many as were drawn for it."""
        counts = self.candidate_counts(full.masks.sizes, number)
        return keep_largest_by_layer(full.masks, magnitudes(full.values, full.masks), counts)

    def candidate_counts(self, sizes: Mapping[str, int], number: int) -> dict[str, int]:
        """Return a candidate's live weights by layer; the first has the same density everywhere."""
        density, total = self.config.pruning.density, sum(sizes.values())
        drawn = lots("fedtiny", self.config.run.seed, number).uniform((len(sizes),))
        shares = {
            n: 1 + (SPREAD * (2 * float(u) - 1) if number else 0.0) for n, u in zip(sizes, drawn, strict=True)
        }
        scale = density * total / sum(shares[name] * size for name, size in sizes.items())
        return {name: target_count(min(1.0, scale * shares[name]), size) for name, size in sizes.items()}


LIVE = "live."
"""Before a layer's name, in memory: how many of its weights live."""


def exchanged(round: int, method: Method) -> float:
    """Return the share of a layer to exchange after a round: half a cosine, and none after a third of the rounds."""
    stop = STOP * schedule.horizon(method.config)
    if round >= stop:
        return 0.0
    return method.config.pruning.fraction / 2 * (1 + math.cos(math.pi * round / stop))
