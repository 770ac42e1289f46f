"""SET and RigL at a fixed density: the server drops the smallest weights and grows others.

SET (Mocanu et al. 2018) grows at random; RigL (Evci et al. 2020) where the gradient is largest.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from prunefl.core import schedule
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.randomness import lots
from prunefl.core.select import Scores, keep_largest_by_layer, largest, magnitudes
from prunefl.core.state import SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import Chosen, Method, Numbers, Seen, Steps, Update, Work
from prunefl.methods.erk import erk_masks


class SET(Method):
    """Every `pruning.interval` rounds `pruning.fraction` of each layer's live weights makes room for others."""

    name = "set"
    label = "SET"
    colours, dash, place = ("#8d6e63", "#c9aa9f"), "5 2 1 2", 10
    needs_density = True
    tied_to_rounds = "exchanges fewer and fewer weights until the last round"

    def first(self, network: Network) -> Chosen:
        return Chosen(erk_masks(network, self.config.pruning.density, self.config.run.seed))

    def next(self, seen: Seen) -> Chosen:
        share = exchanged_share(self, seen.round)
        if share == 0:
            return Chosen(seen.state.masks, seen.memory)
        return Chosen(exchange(seen.state, self.growth(seen), share), seen.memory)

    def growth(self, seen: Seen) -> Mapping[str, Scores]:
        """Return a score for each position of each layer; the best are grown."""
        source = lots("set", self.config.run.seed, seen.round)
        return {name: source.uniform((size,)) for name, size in seen.state.masks.sizes.items()}


class RigL(SET):
    """The same with the gradient at the weights that clients were sent, which they report in such rounds."""

    name = "rigl"
    label = "RigL"
    colours, dash, place = ("#6d7f1f", "#b9cc5c"), "2 2", 9

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Work(report="gradient" if exchanged_share(self, round) else "")

    def train(self, work: Work, local: Local) -> Update:
        return train_and_report_gradient(work, local)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        return gradient_cost(work, self.config.training.local_steps, live)

    def growth(self, seen: Seen) -> Mapping[str, Scores]:
        assert seen.statistic is not None
        return {name: np.abs(seen.statistic[name]).reshape(-1) for name in seen.state.masks}


def exchanged_share(method: Method, round: int) -> float:
    """Return RigL's share to exchange after a round: cosine decay, none between exchanges or in the last quarter."""
    return 0.0 if round % method.config.pruning.interval else decayed_share(method, round)


def decayed_share(method: Method, round: int) -> float:
    """Return where the decay of that share is after a round, whether or not it exchanges."""
    end = 0.75 * schedule.horizon(method.config)
    if round >= end:
        return 0.0
    return method.config.pruning.fraction / 2 * (1 + float(np.cos(np.pi * round / end)))


def exchange(state: SparseState, growth: Mapping[str, Scores], fraction: float) -> Masks:
    """Return masks in which each layer's smallest |w| made room for the best of `growth`; counts stay.

    Args:
        growth: score of each position, (size,); as in RigL, one that was just dropped may win its place back.
        fraction: share of a layer's live weights to drop.
    """
    live = state.masks.counts
    stays = {name: count - int(fraction * count) for name, count in live.items()}
    kept = keep_largest_by_layer(state.masks, magnitudes(state.values, state.masks), stays)
    grown = {}
    for name, mask in kept.items():
        flat = mask.reshape(-1).copy()
        flat[~flat] = largest(growth[name][~flat], live[name] - stays[name])
        grown[name] = flat.reshape(mask.shape)
    return Masks(grown)


def train_and_report_gradient(work: Work, local: Local) -> Update:
    """Return the update of local SGD, with the gradient at the weights received where that is asked for."""
    batches = local.batches()
    gradient = local.gradient(batches) if work.report else None
    trained = local.steps(batches)
    return Update(local.state, trained.loss, gradient)


def gradient_cost(work: Work, steps: int, live: Counts) -> list[Steps]:
    """Return the steps, and those of the gradient at the weights received."""
    reported = [Steps(steps, live, full_gradient=True)] if work.report else []
    return [Steps(steps, live), *reported]
