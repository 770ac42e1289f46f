"""DPF, a cost baseline: a pruned model goes down, a full-size gradient comes up, every round.

Lin et al. 2020, dynamic model pruning with feedback. The server updates dense weights with gradients taken at
the pruned ones, and prunes them anew by magnitude. The density comes down gradually, in the first half of the rounds.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from prunefl.core import importance, schedule
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.select import keep_largest, target_count
from prunefl.core.state import Array, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local, Sums
from prunefl.methods.base import Chosen, Method, Numbers, Seen, Steps, Update, Work


class DPF(Method):
    """Memory holds the dense weights where they are pruned, and zero where the clients have them."""

    name = "dpf"
    label = "DPF"
    colours, dash, place = ("#b5179e", "#f072dd"), "10 4 2 4", 12
    needs_density = True
    averages_itself = True
    needs_plain_sgd = True
    tied_to_rounds = "prunes gradually in the first half of all rounds"
    looks_at_clients = "clients answer under other masks than the server's"

    def first(self, network: Network) -> Chosen:
        return self._prune({n: network.first.dense(n) for n in network.full_masks}, network.first, 0)

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Work(own_masks=True)

    def train(self, work: Work, local: Local) -> Update:
        """Return a full model: trained values where the mask lives, −rate · (sum of the steps' g) where it does not."""
        masks = local.received.masks
        sums = importance.empty_sums(masks.shapes)
        trained = local.steps(local.batches(), Sums(sums, squared=False))
        state, rate = local.state, np.float32(-local.rate)
        full = {n: np.where(masks[n], state.dense(n), rate * sums[n]) for n in masks}
        everywhere = Masks.full(masks.shapes)
        return Update(SparseState.from_dense({**state.values, **full}, everywhere), trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        return [Steps(self.config.training.local_steps, live, full_gradient=True)]

    def next(self, seen: Seen) -> Chosen:
        # where a weight was pruned the clients send only its change, so that the sum is the new dense weight
        dense = {name: seen.state.dense(name) + hidden for name, hidden in seen.memory.arrays.items()}
        return self._prune(dense, seen.state, seen.round)

    def _prune(self, dense: Mapping[str, Array], state: SparseState, round: int) -> Chosen:
        """Return the largest of the dense weights as the state to train, the others as memory."""
        everywhere = Masks.full(state.masks.shapes)
        density = schedule.cubic(round, schedule.horizon(self.config) / 2, 1.0, self.config.pruning.density)
        count = target_count(density, everywhere.size)
        masks = keep_largest(everywhere, {n: np.abs(w).reshape(-1) for n, w in dense.items()}, count)
        hidden = {name: dense[name] * ~mask for name, mask in masks.items()}
        return Chosen(masks, Memory(arrays=hidden), SparseState.from_dense({**state.values, **dense}, masks))
