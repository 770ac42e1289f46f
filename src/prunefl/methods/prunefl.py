"""PruneFL: one client prunes first, then the server chooses anew every few rounds (the paper, Section IV)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from prunefl.core import importance, schedule
from prunefl.core.limits import allowed_weights
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.reconfigure import reconfigure
from prunefl.core.select import keep_largest, magnitudes
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel, from_json, to_json
from prunefl.local import Local, Sums
from prunefl.methods.base import (
    BadUpdate,
    Chosen,
    Clients,
    Combined,
    Method,
    Numbers,
    Received,
    Seen,
    Steps,
    Update,
    Work,
)
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import InitialSettings

MOST_STEPS = 10**9
"""In one stretch of initial pruning; nobody waits for more."""

STRETCH = ("passes", "steps", "full_steps", "accuracy", "loss")
"""What a client tells of each stretch of initial pruning with one mask, beside its live weights by layer."""


@dataclass(frozen=True)
class Collect(Work):
    """Train; in the rounds before a reconfiguration, add up g² of every step, and report its mean at the last."""

    collect: bool = False


@dataclass(frozen=True)
class PruneFirst(Work):
    """Initial pruning: train and reconfigure on some of your own samples, weighing time as the server does."""

    time_model: str = ""


LIVE = "live."


class PruneFL(Method):
    """The two stages; either can be left out."""

    name = "prunefl"
    label = "PruneFL"
    colours, dash, place = ("#d1495b", "#ff7a8a"), "", 0
    finds_density: ClassVar[bool] = True
    keeps_limits: ClassVar[tuple[str, ...]] = ("density_limit", "density_target")
    works = (Collect, PruneFirst)
    has_initial, has_further = True, True

    @property
    def first_round(self) -> int:
        return 0 if self.has_initial else 1

    def first(self, network: Network) -> Chosen:
        limit, masks = schedule.max_density(0, self.config), network.full_masks
        if limit is None or self.has_initial:
            return Chosen(masks)
        sizes = magnitudes(network.first.values, masks)
        return Chosen(keep_largest(masks, sizes, allowed_weights(limit, masks.size)))

    def cohort(self, round: int, clients: Clients) -> Sequence[int]:
        return [self._initial_client(clients)] if round == 0 else super().cohort(round, clients)

    def _initial_client(self, clients: Clients) -> int:
        """Return who prunes first: the config's choice, or the fastest that has enough samples (docs/method.md 8)."""
        chosen, samples = self.config.initial.client, self.config.initial.samples
        if chosen >= 0:
            held = clients.num_samples[chosen]
            if held < samples:
                raise PruneFLError(
                    f"initial.samples={samples}, must be <= {held}, what initial.client={chosen} has"
                )
            return chosen
        enough = [n for n, count in enumerate(clients.num_samples) if count >= samples]
        if not enough:
            most = max(clients.num_samples)
            raise PruneFLError(f"initial.samples={samples}, must be <= {most}, the most that a client has")
        return min(enough, key=lambda client: (clients.step_seconds[client], client))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        if round == 0:
            return PruneFirst(own_masks=True, time_model=to_json(time_model))
        interval, rounds = self.config.pruning.interval, self.config.run.rounds
        # importance that no reconfiguration will use is not collected
        if not self.has_further or round > (rounds - 1) // interval * interval:
            return Collect()
        return Collect(
            report="importance" if schedule.reconfigures(round, self.config) else "",
            collect=importance.in_window(round, interval, self.config.importance.window),
        )

    def train(self, work: Work, local: Local) -> Update:
        if isinstance(work, PruneFirst):
            with local.threads(self.config.initial.threads or self.config.run.threads):
                return prune_first(self, local, from_json(work.time_model))
        assert isinstance(work, Collect)
        # sums of other masks speak of another model: the server has chosen anew without us
        kept = local.memory if local.same_masks else Memory()
        batches = local.batches()
        if not work.collect:
            loss = local.steps(batches).loss
            return Update(local.state, loss, memory=kept)
        # a copy: state in, state out
        sums = {name: total.copy() for name, total in kept.arrays.items()}
        sums = sums or importance.empty_sums(local.template.parameters)
        steps = len(batches) + int(kept.number("steps"))
        loss = local.steps(batches, Sums(sums)).loss
        if work.report:
            return Update(local.state, loss, importance.mean(sums, steps))
        return Update(local.state, loss, memory=Memory({"steps": steps}, sums))

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        if isinstance(work, PruneFirst):
            stretches = _stretches(numbers)
            ordinary = [Steps(s["steps"] - s["full_steps"], s["live"]) for s in stretches]
            return ordinary + [Steps(s["full_steps"], s["live"], full_gradient=True) for s in stretches]
        assert isinstance(work, Collect)
        return [Steps(self.config.training.local_steps, live, full_gradient=work.collect)]

    def check(self, work: Work, numbers: Numbers, masks: Masks) -> None:
        if not isinstance(work, PruneFirst):
            return super().check(work, numbers, masks)
        columns = [numbers.get(name) for name in (*STRETCH, *(f"{LIVE}{name}" for name in masks))]
        lists = [column for column in columns if isinstance(column, list)]
        lengths = {len(column) for column in lists}
        if not len(numbers) == len(columns) == len(lists) or len(lengths) != 1 or 0 in lengths:
            raise BadUpdate("not an account of initial pruning")
        # in words that NaN does not fulfil either
        for passes, steps, full_steps, accuracy, loss, *live in zip(*lists, strict=True):
            sizes = zip(live, masks.sizes.values(), strict=True)
            if not all(0 <= count <= size and count % 1 == 0 for count, size in sizes):
                raise BadUpdate("a stretch's live weights are not those of the model")
            if not (0 <= full_steps <= steps <= MOST_STEPS and 0 <= passes <= MOST_STEPS):
                raise BadUpdate(f"a stretch of {passes} passes and {steps} steps, {full_steps} of them full")
            if not (0 <= accuracy <= 1 and math.isfinite(loss)):
                raise BadUpdate(f"a stretch with accuracy {accuracy} and loss {loss}")

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        if isinstance(work, PruneFirst):
            return Combined(updates[0].state, memory)
        return super().combine(work, start, updates, memory)

    def next(self, seen: Seen) -> Chosen:
        if isinstance(seen.work, PruneFirst):
            return Chosen(
                seen.state.masks, seen.memory, notes={"segments": _stretches(seen.updates[0].numbers)}
            )
        assert isinstance(seen.work, Collect)
        notes = {"collected": seen.work.collect}
        if seen.statistic is None:
            return Chosen(seen.state.masks, seen.memory, notes=notes)
        masks = self.choose(seen.state, seen.statistic, seen.time_model, seen.round)
        return Chosen(masks, seen.memory, notes=notes)

    def choose(self, state: SparseState, mean: Arrays, time_model: TimeModel, completed: int) -> Masks:
        """Return the masks after one reconfiguration, of the server or of the client that prunes first."""
        return reconfigure(
            state,
            mean,
            time_model,
            fraction=schedule.fraction(completed, self.config),
            scope=self.config.pruning.scope,
            fixed_gain=importance.fixed_gain(mean, state.masks),
            max_density=schedule.max_density(completed, self.config),
        )


class InitialOnly(PruneFL):
    """PruneFL without further pruning."""

    name = "initial-only"
    label = "PruneFL, initial only"
    colours, dash, place = ("#e08a6d", "#ffb199"), "4 3", 6
    finds_density = False
    keeps_limits = ("density_limit",)
    has_further = False


class FurtherOnly(PruneFL):
    """PruneFL without initial pruning."""

    name = "further-only"
    label = "PruneFL, further only"
    colours, dash, place = ("#a3315a", "#f29bb9"), "9 3 2 3", 7
    finds_density = False
    has_initial = False


@dataclass(frozen=True)
class Watch:
    """When initial pruning reconfigures and when it ends."""

    started: bool = False
    passes_since: int = 0
    stable: int = 0

    def after_pass(self, accuracy: float, classes: int, settings: "InitialSettings") -> "Watch":
        """Return the watch one pass later; reconfiguration starts once the model beats chance clearly."""
        started = self.started or accuracy > settings.start_factor / classes
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


def prune_first(method: PruneFL, local: Local, time_model: TimeModel) -> Update:
    """Return the model that this client pruned on its own samples, and what each stretch of the way cost."""
    settings, window = method.config.initial, method.config.importance.window
    batches = local.fixed_batches(settings.samples)
    state, watch, account = local.received, Watch(), _Account()
    sums = importance.empty_sums(local.template.parameters)
    passes = full = 0
    for done in range(1, settings.max_passes + 1):
        collects = watch.collects(done - 1, settings, window)
        trained = local.steps(batches, Sums(sums) if collects else None)
        accuracy = trained.right / trained.samples
        passes, full = passes + 1, full + collects
        local.on_pass(done, settings.max_passes, state.masks.density)
        watch = watch.after_pass(accuracy, local.classes, settings)
        if watch.due(settings) or done == settings.max_passes:
            steps, full_steps = passes * len(batches), full * len(batches)
            account.add(passes, steps, full_steps, accuracy, trained.loss, state.masks)
            state = local.state
            masks = method.choose(state, importance.mean(sums, full_steps), time_model, 0)
            watch = watch.after_reconfiguration(state.masks.density, masks.density, settings)
            state = state.remask(masks, *schedule.regrowth(method.config, 0))
            local.replace_state(state)
            sums, passes, full = importance.empty_sums(local.template.parameters), 0, 0
            if watch.stable >= settings.patience:
                break
    return Update(state, account.columns["loss"][-1], numbers=account.columns)


class _Account:
    """What initial pruning cost, stretch by stretch: a list of numbers for each thing told."""

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {}

    def add(
        self, passes: int, steps: int, full_steps: int, accuracy: float, loss: float, masks: Masks
    ) -> None:
        """Enter a stretch with one mask; of its steps `full_steps` computed the gradient of pruned weights, too."""
        row: dict[str, float] = dict(zip(STRETCH, (passes, steps, full_steps, accuracy, loss), strict=True))
        row |= {f"{LIVE}{name}": count for name, count in masks.counts.items()}
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)


def _stretches(numbers: Numbers) -> list[dict[str, Any]]:
    """Return the stretches of initial pruning one by one, as records have them."""
    columns = {name: column for name, column in numbers.items() if isinstance(column, list)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [
        {name: row[name] for name in STRETCH}
        | {"live": {n.removeprefix(LIVE): int(row[n]) for n in row if n.startswith(LIVE)}}
        for row in rows
    ]
