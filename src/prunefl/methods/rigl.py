"""SET and RigL at a fixed density: the server drops the smallest weights and grows others.

SET (Mocanu et al. 2018) grows at random; RigL (Evci et al. 2020) where the gradient is largest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.methods.erk import erk_masks
from prunefl.methods.survivors import cosine_share, exchange, given_density, stream
from prunefl.rounds.messages import Ask

if TYPE_CHECKING:
    from prunefl.config import Config


@dataclass(frozen=True)
class Exchange(Pruner):
    """Every `interval` rounds, a share of each layer's live weights makes room for others.

    Attributes:
        report: the statistic that `growth` needs.
        growth: from what is seen, a score for each position; the best are grown.
    """

    tied_to_rounds: ClassVar[str] = "exchanges fewer and fewer weights until the last round"
    density: float
    seed: int
    rounds: int
    interval: int
    share: float
    report: str
    growth: Callable[[Seen], dict[str, Tensor]]

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        return Chosen(erk_masks(model, names, self.density, self.seed))

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask(report=self.report if self._share_after(round) else "")

    def next(self, seen: Seen) -> Chosen:
        share = self._share_after(seen.round)
        if share == 0:
            return Chosen(seen.masks, seen.memory)
        return Chosen(exchange(seen.masks, seen.weights, self.growth(seen), share), seen.memory)

    def _share_after(self, round: int) -> float:
        return 0.0 if round % self.interval else cosine_share(self.share, round, self.rounds)


def _by_lot(seed: int) -> Callable[[Seen], dict[str, Tensor]]:
    def growth(seen: Seen) -> dict[str, Tensor]:
        generator = stream("set", seed, seen.round)
        return {name: torch.rand(mask.shape, generator=generator) for name, mask in seen.masks.items()}

    return growth


def _by_gradient(seen: Seen) -> dict[str, Tensor]:
    assert seen.statistic is not None
    return {name: seen.statistic[name].abs() for name in seen.masks}


def evolutionary(config: "Config") -> Pruner:
    """Return SET at `pruning.density`, exchanging `pruning.fraction` every `pruning.interval` rounds."""
    run, pruning = config.run, config.pruning
    density, growth = given_density(config), _by_lot(run.seed)
    return Exchange(density, run.seed, run.rounds, pruning.interval, pruning.fraction, "", growth)


def rigl(config: "Config") -> Pruner:
    """Return RigL at `pruning.density`, exchanging `pruning.fraction` every `pruning.interval` rounds."""
    run, pruning = config.run, config.pruning
    density = given_density(config)
    return Exchange(
        density, run.seed, run.rounds, pruning.interval, pruning.fraction, "gradient", _by_gradient
    )
