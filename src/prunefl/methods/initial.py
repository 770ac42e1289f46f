"""Initial pruning: one client trains and reconfigures on some of its own samples before round 1 (docs/method.md 8)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from prunefl.core import importance, schedule
from prunefl.core.masks import Masks
from prunefl.core.price import Account
from prunefl.core.state import Arrays, SparseState
from prunefl.local import Batch, Local, Sums
from prunefl.methods.base import BadUpdate, Numbers, Update
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import InitialSettings

Choose = Callable[[SparseState, Arrays, float | None], tuple[Masks, Account]]
"""From a state, the mean importance and the largest density allowed to the next masks, and why."""

MOST_STEPS = 10**9
"""In one stretch of initial pruning; nobody waits for more."""

STRETCH = ("passes", "steps", "full_steps", "accuracy", "loss", "stable", "gamma", "lost")
"""What a client tells of each stretch of initial pruning with one mask, beside its live weights by layer."""

WHOLE = ("passes", "steps", "full_steps", "stable")
"""Those of them that are whole numbers."""

LIVE = "live."


@dataclass(frozen=True)
class Watch:
    """When initial pruning reconfigures and when it ends."""

    started: bool = False
    passes_since: int = 0
    stable: int = 0

    def after_pass(self, accuracy: float, threshold: float, settings: "InitialSettings") -> "Watch":
        """Return the watch one pass later; reconfiguration starts once the model has clearly learned something."""
        return self._one_later(accuracy > threshold, settings)

    def after_pass_by_loss(self, loss: float, first_loss: float, settings: "InitialSettings") -> "Watch":
        """Return the same where samples are not classified: once the loss is below the first pass's by that factor."""
        return self._one_later(loss * settings.start_factor < first_loss, settings)

    def _one_later(self, learned: bool, settings: "InitialSettings") -> "Watch":
        started = self.started or learned
        first = started and not self.started
        return Watch(started, settings.interval if first else self.passes_since + 1, self.stable)

    def due(self, settings: "InitialSettings") -> bool:
        """Return whether it is time to reconfigure."""
        return self.started and self.passes_since >= settings.interval

    def collects(self, done: int, settings: "InitialSettings", window: int | str) -> bool:
        """Return whether the pass after `done` others collects importance; before the start any may have to."""
        until = min(settings.interval - self.passes_since, settings.max_passes - done)
        return window == "all" or not self.started or until <= int(window)

    def after_reconfiguration(self, before: float, after: float, settings: "InitialSettings") -> "Watch":
        """Return the watch with one more stable reconfiguration, or none."""
        change = abs(after - before) / before if before else 0.0
        return Watch(True, 0, self.stable + 1 if change < settings.tolerance else 0)


def start_threshold(batches: Sequence[Batch], classes: int, start_factor: float) -> float:
    """Return the accuracy beyond which something was learned: more than chance, and than the commonest class."""
    if not start_factor:
        return 0.0
    labels = np.concatenate([labels for _, labels in batches])
    return max(start_factor / classes, float(np.bincount(labels).max()) / labels.size)


def prune_first(local: Local, choose: Choose) -> Update:
    """Return the model that this client pruned on its own samples, and what each stretch of the way cost."""
    settings = local.config.initial
    limit = schedule.max_density(0, local.config)
    stage = _Stage(local, choose)
    for done in range(1, settings.max_passes + 1):
        stage.train(done)
        last = done == settings.max_passes
        if stage.watch.due(settings) or last:
            stage.reconfigure(limit if last else _on_the_way(limit, stage.state.masks.density, local))
            if stage.watch.stable >= settings.patience and (
                limit is None or stage.state.masks.density <= limit
            ):
                break
    return Update(stage.state, stage.told.columns["loss"][-1], numbers=stage.told.columns)


class _Stage:
    """Initial pruning on its way: the model, and what has been seen since its masks were chosen last."""

    def __init__(self, local: Local, choose: Choose) -> None:
        self.local, self.choose = local, choose
        self.settings, self.window = local.config.initial, local.config.importance.window
        self.state, self.watch, self.told = local.received, Watch(), _Columns()
        self.batches: list[Batch] = []
        self.accuracy = self.loss = self.first_loss = 0.0
        self._begin_stretch()

    def _begin_stretch(self) -> None:
        self.sums = importance.empty_sums(self.local.template.parameters)
        self.passes = self.full = 0

    def train(self, done: int) -> None:
        """Train one pass, the first is 1."""
        if self.settings.fresh or not self.batches:
            self.batches = _batches(self.local, done - 1)
        collects = self.watch.collects(done - 1, self.settings, self.window)
        rate = self.local.rate * min(1.0, done / (self.settings.warm_up + 1))
        trained = replace(self.local, rate=rate).steps(self.batches, Sums(self.sums) if collects else None)
        if not math.isfinite(trained.loss):
            raise PruneFLError(
                f"training diverged in initial pruning, pass {done}, rate {rate:g}; lower training.learning_rate"
            )
        self.passes, self.full = self.passes + 1, self.full + collects
        self.local.on_pass(done, self.settings.max_passes, self.state.masks.density)
        self.accuracy, self.loss = trained.right / trained.samples, trained.loss
        self.first_loss = self.first_loss or trained.loss
        self._look()

    def _look(self) -> None:
        """See whether it is time to reconfigure."""
        if self.local.classifies:
            # of the pass's own samples: what one pass has most of is not what another has most of
            threshold = start_threshold(self.batches, self.local.classes, self.settings.start_factor)
            self.watch = self.watch.after_pass(self.accuracy, threshold, self.settings)
        else:
            self.watch = self.watch.after_pass_by_loss(self.loss, self.first_loss, self.settings)

    def reconfigure(self, limit: float | None) -> None:
        """Choose masks by what was collected, and go on under them."""
        steps, full_steps = self.passes * len(self.batches), self.full * len(self.batches)
        live, before = self.state.masks, self.local.state
        masks, account = self.choose(before, importance.mean(self.sums, full_steps), limit)
        self.watch = self.watch.after_reconfiguration(live.density, masks.density, self.settings)
        row = (
            self.passes,
            steps,
            full_steps,
            self.accuracy,
            self.loss,
            self.watch.stable,
            account.gamma,
            account.lost,
        )
        self.told.add(row, live)
        self.state = before.remask(masks, *schedule.regrowth(self.local.config, 0))
        self.local.replace_state(self.state)
        self._begin_stretch()


def _batches(local: Local, turn: int) -> list[Batch]:
    """Return the mini-batches of a pass: what one client knows beyond a few samples tells more than these again."""
    settings = local.config.initial
    if settings.fresh:
        return local.fresh_batches(settings.samples, turn)
    return local.fixed_batches(settings.samples)


def _on_the_way(limit: float | None, density: float, local: Local) -> float | None:
    """Return the largest density before the end: down towards the limit, by no more than a reconfiguration may prune.

    A cut that is forced down at once, before anything has been learned, is a blind one (docs/method.md 6).
    """
    return None if limit is None else max(limit, (1 - schedule.fraction(0, local.config)) * density)


class _Columns:
    """What initial pruning cost, stretch by stretch: a list of numbers for each thing told."""

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {}

    def add(self, row: Sequence[float], masks: Masks) -> None:
        """Enter a stretch with one mask: what STRETCH names, in that order."""
        named = dict(zip(STRETCH, row, strict=True))
        for name, value in (named | {f"{LIVE}{n}": count for n, count in masks.counts.items()}).items():
            self.columns.setdefault(name, []).append(value)


def check_account(numbers: Numbers, masks: Masks) -> None:
    """Refuse, by a BadUpdate, what cannot be an account of initial pruning."""
    columns = [numbers.get(name) for name in (*STRETCH, *(f"{LIVE}{name}" for name in masks))]
    lists = [column for column in columns if isinstance(column, list)]
    lengths = {len(column) for column in lists}
    if not len(numbers) == len(columns) == len(lists) or len(lengths) != 1 or 0 in lengths:
        raise BadUpdate("not an account of initial pruning")
    # in words that NaN does not fulfil either
    for passes, steps, full_steps, accuracy, loss, stable, gamma, lost, *live in zip(*lists, strict=True):
        sizes = zip(live, masks.sizes.values(), strict=True)
        if not all(0 <= count <= size and count % 1 == 0 for count, size in sizes):
            raise BadUpdate("a stretch's live weights are not those of the model")
        if not (0 <= full_steps <= steps <= MOST_STEPS and 0 <= passes <= MOST_STEPS):
            raise BadUpdate(f"a stretch of {passes} passes and {steps} steps, {full_steps} of them full")
        if not (
            0 <= stable <= MOST_STEPS and all(one % 1 == 0 for one in (passes, steps, full_steps, stable))
        ):
            raise BadUpdate(
                f"a stretch with {stable} stable reconfigurations, or not a whole number of steps"
            )
        if not (0 <= accuracy <= 1 and math.isfinite(loss)):
            raise BadUpdate(f"a stretch with accuracy {accuracy} and loss {loss}")
        if not (0 <= gamma < math.inf and 0 <= lost < math.inf):
            raise BadUpdate(f"a stretch with Γ {gamma} and {lost} of loss")


def stretches(numbers: Numbers) -> list[dict[str, Any]]:
    """Return the stretches of initial pruning one by one, as records have them."""
    columns = {name: column for name, column in numbers.items() if isinstance(column, list)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [
        {name: int(row[name]) if name in WHOLE else float(row[name]) for name in STRETCH}
        | {"live": {n.removeprefix(LIVE): int(row[n]) for n in row if n.startswith(LIVE)}}
        for row in rows
    ]


def ended_by(numbers: Numbers, settings: "InitialSettings") -> str:
    """Return which rule ended initial pruning: "stable" or "max_passes"."""
    return "stable" if stretches(numbers)[-1]["stable"] >= settings.patience else "max_passes"
