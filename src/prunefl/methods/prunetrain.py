"""PruneTrain, a cost baseline: a group lasso over input and output channels, paid for in every step.

Lym et al. 2019. Channels whose weights have all become tiny are removed every `pruning.interval` rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from prunefl.core.masks import Counts, Mask, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.state import Array, Arrays, SparseState, pick
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import Chosen, Method, Numbers, Seen, Steps, Update, Work

LASSO_SHARE = 0.2
"""Of the first loss and lasso together."""

TINY = 1e-4

STEP_SHARE = 17.65 / 11.24 - 1
"""What the lasso adds to the full model's step: Conv-2 on a Raspberry Pi, as PruneFL's authors measured it (57 %).

benchmarks/lasso.py finds 58 % on x86.
"""

STEP_SHARES = {9_747_136: 0.14, 266_200: 0.41}
"""The same of VGG-11 and LeNet-300-100, by their prunable weights: what benchmarks/lasso.py measured on x86."""

FLOPS_PER_WEIGHT = 8
"""Per live weight and step: two squared norms and their two gradients."""


@dataclass(frozen=True)
class Lasso(Work):
    """Train with a group lasso of this weight, which adds this share of the full model's step."""

    strength: float = 0.0
    share: float = STEP_SHARE


class PruneTrain(Method):
    """The lasso's weight is set once, so that it makes up a fifth of the first loss."""

    name = "prunetrain"
    label = "PruneTrain"
    colours, dash, place = ("#4361ee", "#8ea2ff"), "4 4", 13
    works = (Lasso,)

    def first(self, network: Network) -> Chosen:
        masks = network.full_masks
        # an untrained model guesses: log(classes), or log 2 for each class's own yes or no
        one_hot = self.config.training.loss == "onehot_bce"
        loss = log(2 if one_hot else list(masks.shapes.values())[-1][0])
        penalty = sum(
            sum(float(norms.sum()) for norms in channel_norms(network.first.dense(n))) for n in masks
        )
        strength = LASSO_SHARE / (1 - LASSO_SHARE) * loss / penalty
        share = STEP_SHARES.get(masks.size, STEP_SHARE)
        return Chosen(masks, Memory(numbers={"lasso": strength, "share": share}))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Lasso(strength=memory.number("lasso"), share=memory.number("share"))

    def train(self, work: Work, local: Local) -> Update:
        assert isinstance(work, Lasso)
        strength = np.float32(work.strength)

        def penalty(state: SparseState) -> Arrays:
            return {n: strength * pick(lasso_gradient(state.dense(n)), state.masks, n) for n in state.masks}

        trained = local.steps(local.batches(), penalty=penalty)
        return Update(local.state, trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        assert isinstance(work, Lasso)
        count = sum(live.values())
        return [
            Steps(
                self.config.training.local_steps,
                live,
                extra_share=work.share,
                extra_flops=FLOPS_PER_WEIGHT * count,
            )
        ]

    def next(self, seen: Seen) -> Chosen:
        if seen.round % self.config.pruning.interval:
            return Chosen(seen.state.masks, seen.memory)
        masks = {name: mask & channel_mask(seen.state.dense(name)) for name, mask in seen.state.masks.items()}
        return Chosen(Masks(masks), seen.memory)


def channel_norms(weight: Array) -> tuple[Array, Array]:
    """Return the Euclidean norms of a layer's input channels and of its output channels."""
    squares = np.square(weight).reshape(*weight.shape[:2], -1).sum(2)
    # the norm has no gradient at 0: a channel that is gone must not turn the others into NaN
    inputs, outputs = (np.sqrt(np.maximum(squares.sum(side), np.float32(1e-24))) for side in (0, 1))
    return inputs, outputs


def lasso_gradient(weight: Array) -> Array:
    """Return the gradient of the summed channel norms, in the weight's shape."""
    inputs, outputs = (np.float32(1) / norms for norms in channel_norms(weight))
    factor = outputs[:, None] + inputs[None, :]
    gradient: Array = weight * factor.reshape(*factor.shape, *[1] * (weight.ndim - 2))
    return gradient


def channel_mask(weight: Array) -> Mask:
    """Return where neither output nor input channel is tiny; a layer's largest weight always lives."""
    flat = np.abs(weight).reshape(weight.shape[0], weight.shape[1], -1)
    bound = min(TINY, float(flat.max()))
    rows, columns = flat.max((1, 2)) >= bound, flat.max((0, 2)) >= bound
    return np.broadcast_to((rows[:, None] & columns)[..., None], flat.shape).reshape(weight.shape).copy()
