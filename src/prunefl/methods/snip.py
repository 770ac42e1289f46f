"""SNIP: prune once, after the first round, by how much a weight's removal would change the loss."""

from collections.abc import Sequence

import numpy as np

from prunefl.core.masks import Counts
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.select import keep_largest, target_count
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import Chosen, Method, Numbers, Seen, Steps, Update, Work
from prunefl.methods.exchange import gradient_cost, train_and_report_gradient


class SNIP(Method):
    """The first round runs at full size and is charged so; the masks stay fixed after it."""

    name = "snip"
    label = "SNIP"
    colours, dash, place = ("#1b7ab8", "#5cb8f2"), "", 2
    needs_density = True

    def first(self, network: Network) -> Chosen:
        # the gradient that clients report is taken at these weights, so the score must use them too
        start = {name: network.first.values[name] for name in network.full_masks}
        return Chosen(network.full_masks, Memory(arrays=start))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Work(report="gradient" if round == 1 else "")

    def train(self, work: Work, local: Local) -> Update:
        return train_and_report_gradient(work, local)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        return gradient_cost(work, self.config.training.local_steps, live)

    def next(self, seen: Seen) -> Chosen:
        masks = seen.state.masks
        if seen.statistic is None:
            return Chosen(masks, seen.memory)
        start = seen.memory.arrays
        scores = {name: np.abs(start[name] * seen.statistic[name].reshape(-1)) for name in masks}
        return Chosen(keep_largest(masks, scores, target_count(self.config.pruning.density, masks.size)))
