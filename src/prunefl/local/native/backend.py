"""Training by plan: the executor behind the protocol that every method's client half uses."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from prunefl import _kernels
from prunefl.config.optimiser import PLAIN_SGD, OptimiserSettings
from prunefl.core import importance
from prunefl.core.masks import Masks
from prunefl.core.moments import Moments
from prunefl.core.objectives import Loss, Tally
from prunefl.core.state import Array, SparseState
from prunefl.local.backend import Batch, Penalty, Sums, Trained
from prunefl.local.native.lower import lower
from prunefl.local.native.operations import Conv, Linear
from prunefl.local.native.plan import Plan
from prunefl.local.native.stepper import NativeStepper

GOLDEN = 0x9E3779B97F4A7C15
LOSSES = (Loss("cross_entropy"), Loss("onehot_bce"))
"""Those that the executor computes."""


class NativeBackend:
    """One worker's network; see `prunefl.local.backend.Backend`."""

    name = "native"

    def __init__(self, plan: Plan, loss: str, threads: int, optimiser: OptimiserSettings = PLAIN_SGD) -> None:
        lowered, template = lower(plan), plan.template
        self._template, self._threads = template, threads
        self._number = {name: number for number, name in enumerate(template.names)}
        sizes = [prod(shape) for shape in template.shapes]
        trained = [name not in template.buffers for name in template.names]
        self._executor = _kernels.Executor(lowered.values, lowered.operations, sizes, trained, loss)
        # weights of layers that are never pruned have all their positions
        for node in plan.nodes:
            if (
                isinstance(node.operation, Conv | Linear)
                and (name := node.operation.weight) not in template.prunable
            ):
                self._executor.set_mask(self._number[name], np.ones(prod(template.shape_of[name]), np.uint8))
        self._stepper = NativeStepper(optimiser, self._executor, template)
        self._masks: Masks | None = None
        self._seed = self._draws = 0

    def seed(self, seed: int) -> None:
        """Begin the random numbers of dropout anew."""
        self._seed, self._draws = seed, 0

    def begin(self, moments: Moments | None = None, anchor: SparseState | None = None) -> None:
        """Begin a client's training: forget the one before, remember these moments."""
        self._stepper.begin(moments, anchor)

    def moments(self) -> Moments:
        """Return a copy of what the optimiser remembers, under the masks of the state."""
        assert self._masks is not None
        return self._stepper.moments(self._masks)

    def load(self, state: SparseState) -> None:
        """Take over a state; only other masks take time."""
        if state.masks != self._masks:
            if self._masks is not None:
                self._stepper.leave(self._masks)
            for name in state.masks:
                if self._masks is None or not np.array_equal(state.masks[name], self._masks[name]):
                    self._executor.set_mask(self._number[name], state.masks.flat(name))
            self._masks = state.masks
        for name, value in state.values.items():
            self._executor.load(self._number[name], _flat(value))

    def state(self) -> SparseState:
        """Return a copy of the state."""
        assert self._masks is not None
        shapes = self._template.shape_of
        values = {name: self._executor.store(number) for name, number in self._number.items()}
        own = {n: v if n in self._masks else v.reshape(shapes[n]) for n, v in values.items()}
        return SparseState(own, self._masks)

    def steps(
        self, batches: Sequence[Batch], rate: float, sums: Sums | None = None, penalty: Penalty | None = None
    ) -> Trained:
        """Take one step a batch, by default w − rate·g at live positions; g or g² are added to the sums at all."""
        assert self._masks is not None
        totals, squared = self._totals(sums.arrays if sums else {}), sums is not None and sums.squared
        loss_sum, right, samples = 0.0, 0, 0
        for batch in batches:
            loss, found = self._differentiate(batch, totals, squared, note_statistics=True)
            if penalty is not None:
                for name, value in penalty(self.state()).items():
                    self._executor.add_gradient(self._number[name], _flat(value))
            self._stepper.step(self._masks, rate, self._threads)
            loss_sum, right, samples = loss_sum + loss, right + found, samples + len(batch[1])
        return Trained(loss_sum / len(batches), right, samples)

    def gradient(self, batches: Sequence[Batch], names: Sequence[str]) -> dict[str, Array]:
        """Return the mean gradient over the batches at all positions; the state stays."""
        sums = importance.empty_sums({name: self._template.shape_of[name] for name in names})
        totals = self._totals(sums)
        for batch in batches:
            # what BatchNorm would note meanwhile is not training
            self._differentiate(batch, totals, squared=False, note_statistics=False)
        return importance.mean(sums, len(batches))

    def evaluate(self, batch: Batch) -> tuple[int, float]:
        """Return how many samples are classified right, and the mean loss."""
        return self._executor.evaluate(_floats(batch), batch[1], self._threads)

    def judge(self, batch: Batch) -> tuple[Tally, float]:
        """Return how many of how many samples are classified right, and the mean loss."""
        right, loss = self.evaluate(batch)
        return np.array([right, len(batch[1])], np.float64), loss

    @contextmanager
    def threads(self, count: int) -> Iterator[None]:
        """Compute with so many threads meanwhile; the bits stay the same."""
        before, self._threads = self._threads, count
        try:
            yield
        finally:
            self._threads = before

    def _totals(self, sums: Mapping[str, Array]) -> list[tuple[int, Array]]:
        return [(self._number[name], total) for name, total in sums.items()]

    def _differentiate(
        self, batch: Batch, totals: list[tuple[int, Array]], squared: bool, note_statistics: bool
    ) -> tuple[float, int]:
        self._draws += 1
        seed = (self._seed + GOLDEN * self._draws) % (1 << 64)
        return self._executor.differentiate(
            _floats(batch), batch[1], seed, note_statistics, totals, squared, self._threads
        )


def _floats(batch: Batch) -> Array:
    inputs = batch[0]
    assert isinstance(inputs, np.ndarray), "a plan takes one array"
    return np.ascontiguousarray(inputs, np.float32)


def _flat(value: Array) -> Array:
    return np.ascontiguousarray(value, np.float32).reshape(-1)
