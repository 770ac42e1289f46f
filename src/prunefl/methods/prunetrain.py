"""PruneTrain, a cost baseline: a group lasso over input and output channels, paid for in every step.

Lym et al. 2019. Channels whose weights have all become tiny are removed every `pruning.interval` rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from torch import Tensor, nn

from prunefl.core.masks import full_masks
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.rounds.asks import channel_norms
from prunefl.rounds.messages import Ask

if TYPE_CHECKING:
    from prunefl.config import Config

LASSO_SHARE = 0.2
TINY = 1e-4


def channel_mask(weight: Tensor) -> Tensor:
    """Return where neither output nor input channel is tiny; a layer's largest weight always lives."""
    flat = weight.detach().abs().reshape(weight.shape[0], weight.shape[1], -1)
    bound = min(TINY, float(flat.max()))
    rows, columns = flat.amax((1, 2)) >= bound, flat.amax((0, 2)) >= bound
    return (rows[:, None] & columns)[..., None].expand_as(flat).reshape(weight.shape).clone()


@dataclass(frozen=True)
class PruneTrain(Pruner):
    """The lasso's weight is set once, so that it makes up a fifth of the first loss."""

    interval: int
    one_hot: bool

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        weights = [model.get_parameter(name).detach() for name in names]
        # an untrained model guesses: log(classes), or log 2 for each class's own yes or no
        loss = log(2 if self.one_hot else weights[-1].shape[0])
        penalty = float(sum(map(channel_norms, weights)))
        strength = LASSO_SHARE / (1 - LASSO_SHARE) * loss / penalty
        return Chosen(full_masks(model, names), Memory(numbers={"lasso": strength}))

    def ask(self, round: int, memory: Memory) -> Ask:
        strength = memory.numbers["lasso"]
        assert isinstance(strength, float)
        return Ask(group_lasso=strength)

    def next(self, seen: Seen) -> Chosen:
        if seen.round % self.interval:
            return Chosen(seen.masks, seen.memory)
        masks = {name: mask & channel_mask(seen.weights[name]) for name, mask in seen.masks.items()}
        return Chosen(masks, seen.memory)


def prunetrain(config: "Config") -> Pruner:
    """Return training with a group lasso and removal of dead channels."""
    return PruneTrain(config.pruning.interval, config.training.loss == "onehot_bce")
