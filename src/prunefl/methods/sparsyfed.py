"""SparsyFed: clients train powers of weights, which drives small ones to zero, and send their largest.

Guastella et al. 2025. With w = v·|v|^(β−1) a step on v is the larger, the larger the weight (powerpropagation, Schwarz
et al. 2021). A weight that is zero stays so; what one client has pruned lives on where others keep it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prunefl.core.masks import Counts
from prunefl.core.memory import Memory
from prunefl.core.select import keep_largest, magnitudes, target_count
from prunefl.core.state import Array, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import Combined, Method, Numbers, Received, Steps, Update, Work
from prunefl.methods.candidates import mean_under_union

POWER = 1.25
"""β, as its authors have it; 1 is plain training."""

FLOPS_PER_WEIGHT = 4
"""Per live weight and step, beside the two powers: the step on v."""


class SparsyFed(Method):
    """The server's masks are the union of its clients': larger than `pruning.density` while these do not agree."""

    name = "sparsyfed"
    label = "SparsyFed"
    colours, dash, place = ("#00695c", "#80cbc4"), "9 2 1 2", 20
    needs_density = True
    averages_itself = True
    looks_at_clients = "clients hold masks of their own"
    needs_plain_sgd = True

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Work(own_masks=True)

    def train(self, work: Work, local: Local) -> Update:
        batches, losses = local.batches(), []
        for batch in batches:
            before = local.state
            losses.append(local.steps([batch]).loss)
            local.replace_state(powered(before, local.state))
        state = local.state
        count = target_count(self.config.pruning.density, state.masks.size)
        masks = keep_largest(state.masks, magnitudes(state.values, state.masks), count)
        return Update(state.remask(masks), sum(losses) / len(losses))

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        extra = FLOPS_PER_WEIGHT * sum(live.values())
        return [Steps(self.config.training.local_steps, live, extra_flops=extra)]

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        # the mean of v, which is what its authors' clients send: what few clients keep falls below the mean of w
        sent = [replace(update, state=raised(update.state, 1 / POWER)) for update in updates]
        return Combined(raised(mean_under_union(sent), POWER), memory)


def powered(before: SparseState, after: SparseState) -> SparseState:
    """Return the state after the same step taken on v instead of on w.

    The step on w is rate·g; that on v is rate·g·dw/dv with dw/dv = β·|v|^(β−1).
    """
    values = dict(after.values)
    for name in after.masks:
        w, stepped = before.values[name], after.values[name]
        v = signed_power(w, 1 / POWER)
        slope = np.float32(POWER) * np.abs(v) ** np.float32(POWER - 1)
        values[name] = signed_power(np.asarray(v - (w - stepped) * slope, np.float32), POWER)
    return SparseState(values, after.masks)


def raised(state: SparseState, power: float) -> SparseState:
    """Return the state with its layers' weights raised to a power: w of v by β, v of w by 1/β."""
    values = {name: signed_power(state.values[name], power) for name in state.masks}
    return SparseState({**state.values, **values}, state.masks)


def signed_power(values: Array, power: float) -> Array:
    """Return the power of each size with its sign kept, float32."""
    return np.asarray(np.copysign(np.abs(values) ** np.float32(power), values), np.float32)
