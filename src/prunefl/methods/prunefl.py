"""PruneFL: one client prunes first, then the server chooses anew every few rounds (the paper, Section IV)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from prunefl.core import importance, outliers, schedule
from prunefl.core.limits import allowed_weights
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.price import Account, account_for, as_note
from prunefl.core.reconfigure import reconfigure
from prunefl.core.select import keep_largest, magnitudes
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel, from_json, to_json
from prunefl.local import Local, Sums
from prunefl.methods.base import (
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
from prunefl.methods.initial import check_account, ended_by, prune_first, stretches
from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class Collect(Work):
    """Train; in the rounds before a reconfiguration, add up g² of every step, and report its mean at the last."""

    collect: bool = False


@dataclass(frozen=True)
class PruneFirst(Work):
    """Initial pruning: train and reconfigure on some of your own samples, weighing time as the server does."""

    time_model: str = ""


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
        return 0 if self.prunes_first else 1

    @property
    def prunes_first(self) -> bool:
        """Whether a stage before round 1 prunes: at no client whose model has to be hidden (docs/privacy.md)."""
        privacy = self.config.privacy
        return self.has_initial and (not privacy.hides or privacy.initial == "server")

    def prunes_early(self, round: int) -> bool:
        """Return whether this round is one of those that take the place of initial pruning at a client."""
        wanted = self.has_initial and self.config.privacy.initial == "rounds"
        return wanted and round <= self.config.initial.max_passes

    def interval(self, round: int) -> int:
        """Return the rounds between reconfigurations, as they are in this round."""
        early = self.prunes_early(round)
        return self.config.initial.interval if early else self.config.pruning.interval

    def first(self, network: Network) -> Chosen:
        limit, masks = schedule.max_density(0, self.config), network.full_masks
        if limit is None or self.prunes_first or self.prunes_early(1):
            return Chosen(masks)
        sizes = magnitudes(network.first.values, masks)
        return Chosen(keep_largest(masks, sizes, allowed_weights(limit, masks.size)))

    def cohort(self, round: int, clients: Clients) -> Sequence[int]:
        return self._initial_clients(clients) if round == 0 else super().cohort(round, clients)

    def _initial_clients(self, clients: Clients) -> Sequence[int]:
        """Return who prunes first: the config's choice, or the fastest that have enough samples (docs/method.md 8)."""
        chosen, samples = self.config.initial.client, self.config.initial.samples
        if self.config.privacy.initial == "server":
            # nobody: the server computes like its fastest client
            return [min(clients.members, key=lambda client: (clients.step_seconds[client], client))]
        if chosen >= 0:
            held = clients.num_samples[chosen]
            if held < samples:
                raise PruneFLError(
                    f"initial.samples={samples}, must be <= {held}, what initial.client={chosen} has"
                )
            return [chosen]
        enough = [n for n in clients.members if clients.num_samples[n] >= samples]
        if not enough:
            most = max(clients.num_samples[n] for n in clients.members)
            raise PruneFLError(f"initial.samples={samples}, must be <= {most}, the most that a client has")
        enough.sort(key=lambda client: (clients.step_seconds[client], client))
        return enough[: self.config.initial.clients]

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        if round == 0:
            return PruneFirst(own_masks=True, time_model=to_json(time_model))
        interval, rounds = self.interval(round), self.config.run.rounds
        further = self.has_further or self.prunes_early(round)
        # importance that no reconfiguration will use is not collected
        if not further or round > (rounds - 1) // interval * interval:
            return Collect()
        return Collect(
            report="importance" if round % interval == 0 and round < rounds else "",
            collect=importance.in_window(round, interval, self.config.importance.window),
        )

    def train(self, work: Work, local: Local) -> Update:
        if isinstance(work, PruneFirst):
            with local.threads(self.config.initial.threads or self.config.run.threads):
                return self.prune_first(local, from_json(work.time_model))
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
            told = stretches(numbers)
            ordinary = [Steps(s["steps"] - s["full_steps"], s["live"]) for s in told]
            return ordinary + [Steps(s["full_steps"], s["live"], full_gradient=True) for s in told]
        assert isinstance(work, Collect)
        return [Steps(self.config.training.local_steps, live, full_gradient=work.collect)]

    def check(self, work: Work, numbers: Numbers, masks: Masks) -> None:
        if not isinstance(work, PruneFirst):
            return super().check(work, numbers, masks)
        check_account(numbers, masks)

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        if isinstance(work, PruneFirst):
            return Combined(outliers.most_central([update.state for update in updates]), memory)
        return super().combine(work, start, updates, memory)

    def next(self, seen: Seen) -> Chosen:
        if isinstance(seen.work, PruneFirst):
            first = next(update for update in seen.updates if update.state is seen.state)
            ended = ended_by(first.numbers, self.config.initial)
            notes = {"client": first.client, "segments": stretches(first.numbers), "ended_by": ended}
            return Chosen(seen.state.masks, seen.memory, notes=notes)
        assert isinstance(seen.work, Collect)
        collected = {"collected": seen.work.collect}
        if seen.statistic is None:
            return Chosen(seen.state.masks, seen.memory, notes=collected)
        limit = self._limit(seen)
        masks, account = self.reconfigure(seen.state, seen.statistic, seen.time_model, seen.round, limit)
        return Chosen(masks, seen.memory, notes=collected | {"reconfiguration": as_note(account)})

    def _limit(self, seen: Seen) -> float | None:
        """Return the largest density allowed; before initial pruning has ended, no further down than one cut may go."""
        limit = schedule.max_density(seen.round, self.config)
        if limit is None or not self.prunes_early(seen.round + 1):
            return limit
        return max(limit, (1 - schedule.fraction(seen.round, self.config)) * seen.state.masks.density)

    def prune_first(self, local: Local, time_model: TimeModel) -> Update:
        """Return the model that a client pruned before the first round."""

        def choose(state: SparseState, mean: Arrays, limit: float | None) -> tuple[Masks, Account]:
            return self.reconfigure(state, mean, time_model, 0, limit)

        return prune_first(local, choose)

    def reconfigure(
        self, state: SparseState, mean: Arrays, time_model: TimeModel, completed: int, limit: float | None
    ) -> tuple[Masks, Account]:
        """Return the masks after one reconfiguration, at the server or at the client that prunes first, and why."""
        masks = self.choose(state, mean, time_model, schedule.fraction(completed, self.config), limit)
        batch_size = self.config.training.batch_size
        return masks, account_for(state, masks, mean, time_model, batch_size)

    def choose(
        self, state: SparseState, mean: Arrays, time_model: TimeModel, fraction: float, limit: float | None
    ) -> Masks:
        """Return the next masks, with the paper's prunable set."""
        return reconfigure(
            state,
            mean,
            time_model,
            fraction=fraction,
            scope=self.config.pruning.scope,
            fixed_gain=importance.fixed_gain(mean, state.masks),
            max_density=limit,
        )


class InitialOnly(PruneFL):
    """PruneFL without further pruning."""

    name = "initial-only"
    label = "PruneFL, initial only"
    colours, dash, place = ("#e08a6d", "#ffb199"), "4 3", 6
    finds_density = False
    keeps_limits = ("density_limit",)
    has_further = False
    lives_by_first_stage = True


class FurtherOnly(PruneFL):
    """PruneFL without initial pruning."""

    name = "further-only"
    label = "PruneFL, further only"
    colours, dash, place = ("#a3315a", "#f29bb9"), "9 3 2 3", 7
    finds_density = False
    has_initial = False
