"""A round under differential privacy: what is noised before anybody sees it, and what that spends.

All that the server half of a method gets to see has noise in it, so that whatever it makes of that is covered, too.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from prunefl.config import Config
from prunefl.core import noise
from prunefl.core.ledger import BIT_NOISE, Ledger, Release, multiplier_of
from prunefl.core.masks import Shape
from prunefl.core.randomness import Normal, SystemStream, seeded_normal
from prunefl.core.state import Arrays, SparseState
from prunefl.methods import BadUpdate, Method, Update, Work
from prunefl.methods.base import Numbers
from prunefl.rounds.accounting import epsilon_of, find_noise
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.rounds.server import ServerState, Setup

WITHIN = "within_clip"
"""The number by which a client says whether its change was within the clip (privacy.quantile)."""

VARIANCE = "running_var"
"""How the name of a variance ends: noise must not make it negative."""


@dataclass(frozen=True)
class Spent:
    """What privacy has to remember of a run.

    Attributes:
        clip: largest norm of a client's change in the next round; 0 without privacy.noise.
    """

    ledger: Ledger = field(default_factory=Ledger)
    clip: float = 0.0


@dataclass(frozen=True)
class Mechanism:
    """How a round's sum is noised.

    Attributes:
        clip: largest norm of a client's change.
        cohort: how many clients a sum is divided by, whoever answers.
    """

    noise: float
    clip: float
    cohort: int
    normal: Normal


def is_private(config: Config) -> bool:
    """Return whether noise hides single clients."""
    return config.privacy.noise > 0


def first_spent(config: Config) -> Spent:
    """Return what there is to remember before the first round."""
    return Spent(clip=config.privacy.clip if is_private(config) else 0.0)


def mechanism_of(setup: "Setup", state: "ServerState") -> Mechanism | None:
    """Return how the next round is noised, None if it is not."""
    config, round = setup.config, state.round + 1
    if not is_private(config):
        return None
    cohort = count_cohort(setup)
    drawn = SystemStream().normal if setup.secret else seeded_normal(config.run.seed, "privacy noise", round)
    return Mechanism(config.privacy.noise, state.spent.clip, cohort, drawn)


def count_cohort(setup: "Setup") -> int:
    """Return how many clients a sum is divided by, whoever answers."""
    return setup.config.training.participants or len(setup.members)


def draw_secretly(config: Config, members: Sequence[int]) -> list[int]:
    """Return a cohort that no client can foresee: clients know run.seed, and the hidden draw is part of the promise."""
    count = config.training.participants or len(members)
    return sorted(members[place] for place in SystemStream().permutation(len(members), count).tolist())


def spend(setup: "Setup", state: "ServerState", work: Work, clip: float) -> Spent:
    """Return what is spent after a round with this work, and the clip of the next."""
    return Spent(state.spent.ledger.plus([release_of(setup.config, len(setup.members), work)]), clip)


def make_private(config: Config, update: Update, start: SparseState, clip: float) -> Update:
    """Return what a client may send of its update: change clipped, statistic of norm 1, no loss and no memory.

    A change that is not finite is none: that training diverged here is not to be told either.
    """
    if update.numbers:
        raise PruneFLError(
            f"privacy.noise={config.privacy.noise:g}: run.method={config.run.method!r} reports numbers of single "
            "clients, which no noise covers"
        )
    if not 0 < clip <= sys.float_info.max:
        raise PruneFLError(
            f"privacy.noise={config.privacy.noise:g}, but the server's order has a clip of {clip}"
        )
    if update.state.masks != start.masks:
        raise PruneFLError(
            f"privacy.noise={config.privacy.noise:g}: run.method={config.run.method!r} answers under masks of its own"
        )
    change = noise.change_of(update.state, start)
    norm = noise.measure(change)
    state = noise.move(start, noise.scale(change, noise.clip_share(norm, clip)))
    statistic = update.statistic
    if statistic is not None:
        statistic = noise.scale(statistic, noise.unit_share(noise.measure(statistic)))
    numbers = {WITHIN: float(norm <= clip)} if config.privacy.quantile else {}
    return Update(state, 0.0, statistic, numbers)


def check_within(config: Config, numbers: Numbers) -> Numbers:
    """Return the numbers that are the method's; refuse a word about the clip that is neither yes nor no."""
    if not (is_private(config) and config.privacy.quantile):
        return numbers
    if numbers.get(WITHIN) not in (0.0, 1.0):
        raise BadUpdate(f"{WITHIN}={str(numbers.get(WITHIN))[:50]}, must be 0 or 1")
    return {name: number for name, number in numbers.items() if name != WITHIN}


def release_state(mechanism: Mechanism, start: SparseState, states: Sequence[SparseState]) -> SparseState:
    """Return the start moved by the noised mean of the clipped changes. Clipped again: the promise is the server's."""
    changes = (noise.change_of(state, start) for state in states)
    clipped = ((change, noise.clip_share(noise.measure(change), mechanism.clip)) for change in changes)
    sums = noise.add_up(clipped, {name: value.shape for name, value in start.values.items()})
    sums = noise.add_noise(sums, mechanism.noise * mechanism.clip, mechanism.normal)
    return hold_positive(noise.move(start, noise.mean_arrays(sums, mechanism.cohort)))


def hold_positive(moved: SparseState) -> SparseState:
    """Return a noised model in which no variance is negative."""
    values = {n: np.maximum(v, np.float32(0)) if n.endswith(VARIANCE) else v for n, v in moved.values.items()}
    return SparseState(values, moved.masks)


def release_statistic(
    mechanism: Mechanism, report: str, statistics: Iterable[Arrays], shapes: Mapping[str, Shape]
) -> Arrays:
    """Return the noised mean of statistics of norm 1 at most; importance is never negative."""
    scaled = ((one, noise.clip_share(noise.measure(one), 1.0)) for one in statistics)
    sums = noise.add_up(scaled, shapes)
    mean = noise.mean_arrays(noise.add_noise(sums, mechanism.noise, mechanism.normal), mechanism.cohort)
    return {n: np.maximum(v, np.float32(0)) for n, v in mean.items()} if report == "importance" else mean


def next_clip(config: Config, mechanism: Mechanism, numbers: Iterable[Numbers]) -> float:
    """Return the clip of the next round: the same, or nearer to the quantile."""
    if not config.privacy.quantile:
        return mechanism.clip
    within = sum(one[WITHIN] == 1.0 for one in numbers)
    noised = within + BIT_NOISE * mechanism.noise * float(mechanism.normal(1)[0])
    return follow_noised(config, mechanism.clip, noised / mechanism.cohort)


def follow_noised(config: Config, clip: float, within: float) -> float:
    """Return the clip of the next round by the noised share of changes that were within this one."""
    return noise.follow_quantile(clip, within, config.privacy.quantile)


def release_of(config: Config, clients: int, work: Work) -> Release:
    """Return what a round with this work spends; under masks of its own, no client can be hidden."""
    if work.own_masks:
        raise PruneFLError(
            f"privacy.noise={config.privacy.noise:g}: clients of run.method={config.run.method!r} answer under masks "
            "of their own, which no noise covers"
        )
    told = [
        "change",
        *([work.report] if work.report else []),
        *(["within"] if config.privacy.quantile else []),
    ]
    cohort = min(config.training.participants or clients, clients)
    return Release(clients, cohort, multiplier_of(config.privacy.noise, told))


def plan_releases(setup: "Setup", state: "ServerState") -> list[Release]:
    """Return what each round that is left will spend, as far as the method says now."""
    rounds = range(max(0, state.round) + 1, setup.config.run.rounds + 1)
    works = [setup.method.work(round, state.memory, setup.time_model) for round in rounds]
    return [release_of(setup.config, len(setup.members), work) for work in works]


def can_go_on(setup: "Setup", state: "ServerState") -> bool:
    """Return whether another round is within the budget."""
    privacy = setup.config.privacy
    if not privacy.noise or not privacy.epsilon:
        return True
    work = setup.method.work(state.round + 1, state.memory, setup.time_model)
    next_one = release_of(setup.config, len(setup.members), work)
    return epsilon_of(state.spent.ledger.plus([next_one]), privacy.delta) <= privacy.epsilon


def refuse_broken_promise(setup: "Setup", state: "ServerState") -> None:
    """Refuse a run that could not keep its budget, or whose method looks at single clients."""
    config = setup.config
    if not is_private(config):
        return
    if setup.method.cohort(1, setup.clients) != Method.cohort(setup.method, 1, setup.clients):
        raise PruneFLError(
            f"privacy.noise={config.privacy.noise:g}: run.method={config.run.method!r} chooses its cohorts itself, "
            "must leave them to chance"
        )
    check_budget(config, len(setup.members), state.spent.ledger, plan_releases(setup, state))


def check_budget(config: Config, clients: int, spent: Ledger, planned: Sequence[Release]) -> None:
    """Refuse a delta that promises nothing, and rounds that would exceed the budget, with a noise that would not."""
    privacy = config.privacy
    if privacy.delta >= 1 / clients:
        raise PruneFLError(
            f"privacy.delta={privacy.delta:g}, must be < 1/{clients}, or one client in them all may be told of freely"
        )
    if not privacy.epsilon:
        return
    whole = spent.plus(planned)
    needed = epsilon_of(whole, privacy.delta)
    if needed <= privacy.epsilon:
        return
    advice = "give fewer rounds"
    if not spent.releases:
        enough = privacy.noise * find_noise(whole, privacy.delta, privacy.epsilon)
        advice = f"privacy.noise={enough:.4g} would keep it, or fewer rounds"
    raise PruneFLError(
        f"privacy.epsilon={privacy.epsilon:g}: {config.run.rounds} rounds with privacy.noise={privacy.noise:g} come to "
        f"{needed:.4g}; {advice}"
    )
