"""PruneFL: initial pruning at one client, then reconfiguration every few rounds (the paper, Section IV)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from prunefl.core import importance, schedule
from prunefl.core.masks import full_masks
from prunefl.core.prunable import allowed_weights, without_smallest
from prunefl.core.reconfigure import reconfigure
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.rounds.messages import Ask, InitialPlan

if TYPE_CHECKING:
    from prunefl.config import Config


@dataclass(frozen=True)
class Adaptive(Pruner):
    """The two stages; either can be left out."""

    config: "Config"
    has_initial: bool = True
    has_further: bool = True

    def initial(self) -> InitialPlan | None:
        settings = self.config.initial
        if not self.has_initial:
            return None
        return InitialPlan(
            samples=settings.samples,
            interval=settings.interval,
            start_factor=settings.start_factor,
            tolerance=settings.tolerance,
            patience=settings.patience,
            max_passes=settings.max_passes,
        )

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        masks = full_masks(model, names)
        limit = schedule.max_density(0, self.config)
        if limit is None or self.has_initial:
            return Chosen(masks)
        total = sum(mask.numel() for mask in masks.values())
        weights = {name: model.get_parameter(name).detach() for name in names}
        return Chosen(without_smallest(weights, masks, total - allowed_weights(limit, total)))

    def ask(self, round: int, memory: Memory) -> Ask:
        interval = self.config.pruning.interval
        # importance that no reconfiguration will use is not collected
        last = (self.config.run.rounds - 1) // interval * interval
        if not self.has_further or round > last:
            return Ask()
        return Ask(
            collect=importance.in_window(round, interval, self.config.importance.window),
            report="importance" if schedule.reconfigures(round, self.config) else "",
        )

    def next(self, seen: Seen) -> Chosen:
        if seen.statistic is None:
            return Chosen(seen.masks, seen.memory)
        masks = reconfigure(
            seen.weights,
            seen.statistic,
            seen.masks,
            seen.time_model,
            fraction=schedule.fraction(seen.round, self.config),
            scope=self.config.pruning.scope,
            fixed_gain=importance.fixed_gain(seen.statistic, seen.masks),
            max_density=schedule.max_density(seen.round, self.config),
        )
        return Chosen(masks, seen.memory)


def prunefl(config: "Config") -> Pruner:
    """Return the whole method."""
    return Adaptive(config)


def initial_only(config: "Config") -> Pruner:
    """Return PruneFL without further pruning."""
    return Adaptive(config, has_further=False)


def further_only(config: "Config") -> Pruner:
    """Return PruneFL without initial pruning."""
    return Adaptive(config, has_initial=False)
