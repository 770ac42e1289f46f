"""The optimiser of an executor: its moments lie beside the weights and are carried from mask to mask."""

from collections.abc import Mapping

import numpy as np

from prunefl._kernels import Executor
from prunefl.config.optimiser import OptimiserSettings
from prunefl.core.masks import Masks
from prunefl.core.moments import Moments
from prunefl.core.network import Template
from prunefl.core.state import Array, SparseState
from prunefl.local.rules import adam_rule, clip_scale

ANCHOR = 2
"""Where the executor keeps what FedProx pulls towards; moments are 0 and 1."""


class NativeStepper:
    """What a backend steps with."""

    def __init__(self, settings: OptimiserSettings, executor: Executor, template: Template) -> None:
        self._settings, self._executor, self._template = settings, executor, template
        self._numbers = {name: template.names.index(name) for name in template.parameters}
        self._moments, self._anchor = Moments(), None
        self._placed = False

    _anchor: SparseState | None

    def begin(self, moments: Moments | None, anchor: SparseState | None) -> None:
        """Forget the client before; remember these moments, of any masks."""
        self._moments, self._anchor, self._placed = moments or Moments(), anchor, False
        self._executor.forget()

    def step(self, masks: Masks, rate: float, threads: int) -> None:
        """Take a step by the gradients that are in the executor."""
        settings, executor = self._settings, self._executor
        if settings.is_plain:
            return executor.update(rate, threads)
        self._place(masks)
        self._moments = Moments(self._moments.steps + 1, self._moments.slots)
        if self._anchor is not None and settings.proximal:
            executor.pull(settings.proximal, threads)
        clips = settings.clip_norm
        scale = clip_scale(executor.squared_norm(threads), clips) if clips else 1.0
        if settings.name == "sgd":
            rule = rate, settings.momentum, settings.weight_decay, scale, settings.nesterov
            return executor.update_by_sgd(rule, threads)
        betas, decoupled = (settings.beta1, settings.beta2), settings.name == "adamw"
        decay, steps = settings.weight_decay, self._moments.steps
        return executor.update_by_adam(
            adam_rule(rate, betas, settings.epsilon, decay, decoupled, steps, scale), threads
        )

    def leave(self, masks: Masks) -> None:
        """Remember the moments apart from an executor whose masks, these, are to change."""
        self._moments, self._placed = self.moments(masks), False
        self._executor.forget()

    def moments(self, masks: Masks) -> Moments:
        """Return a copy of what is remembered, under these masks, which are the executor's."""
        if not self._placed or not self._settings.slots:
            return self._moments.remask(masks)
        slots = {slot: self._recalled(which, masks) for which, slot in enumerate(self._settings.slots)}
        return Moments(self._moments.steps, slots)

    def _place(self, masks: Masks) -> None:
        if self._placed:
            return
        kept = self._moments.remask(masks)
        for which, slot in enumerate(self._settings.slots):
            if slot in kept.slots:
                self._remember(which, kept.slots[slot].values)
        if self._anchor is not None and self._settings.proximal:
            self._remember(ANCHOR, self._anchor.remask(masks).values)
        self._placed = True

    def _remember(self, which: int, values: Mapping[str, Array]) -> None:
        for name, number in self._numbers.items():
            flat = np.ascontiguousarray(values[name], np.float32).reshape(-1)
            self._executor.remember(which, number, flat)

    def _recalled(self, which: int, masks: Masks) -> SparseState:
        shapes = self._template.shape_of
        found = {name: self._executor.recall(which, number) for name, number in self._numbers.items()}
        return SparseState({n: v if n in masks else v.reshape(shapes[n]) for n, v in found.items()}, masks)
