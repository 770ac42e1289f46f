"""The server's half of the round: orders out, replies in, next masks. State in, state out; no engine."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from prunefl import wire
from prunefl.config import Config
from prunefl.core import schedule
from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.moments import Moments
from prunefl.core.network import Network
from prunefl.core.refit import Evidence
from prunefl.core.server_step import take_step
from prunefl.core.state import SparseState
from prunefl.core.time_model import TimeModel
from prunefl.devices import Device
from prunefl.methods import Chosen, Clients, Method, Seen, Work
from prunefl.rounds import bounds, refit
from prunefl.rounds.answers import check_chosen, check_cohort, check_combined, check_work
from prunefl.rounds.collected import Collected, SecureOutcome
from prunefl.rounds.cost import Charge, Totals, charge_evaluation, charge_round
from prunefl.rounds.evaluation import Evaluation
from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork
from prunefl.rounds.packing import pack_by_known
from prunefl.rounds.private import Spent, draw_secretly, first_spent, is_private, mechanism_of, spend
from prunefl.rounds.scores import collect_scores
from prunefl.rounds.updates import collect_updates
from prunefl.system.errors import PruneFLError

REMEMBERED_MASKS = 3
"""How many former masks the server keeps, to send a change instead of a whole pattern."""


@dataclass(frozen=True)
class Setup:
    """What does not change during a run.

    Attributes:
        num_samples: D_n of every client: what it trains on.
        devices: the device of every client.
        time_model: T(M) of the fleet.
        cut: how the data was divided among the clients, in words.
        left_out: clients that are not asked any more, for what they did to the model.
        secret: whether noise and cohorts are drawn where nobody can draw them again; a simulation uses run.seed.
        passed_over: clients that are not asked for the stage before round 1: they had their time.
        measured: break-even densities: which layers compute sparsely, and with it bits; saved with the run.
    """

    config: Config
    network: Network
    method: Method
    num_samples: Sequence[int]
    devices: Sequence[Device]
    time_model: TimeModel
    cut: str = ""
    measured: MutableMapping[str, float] = field(default_factory=dict)
    left_out: Set[int] = frozenset()
    passed_over: Set[int] = frozenset()
    secret: bool = False

    @property
    def clients(self) -> Clients:
        """The clients as a method sees them."""
        seconds = [device.dense_step_seconds() for device in self.devices]
        return Clients(self.num_samples, seconds, self.members)

    @property
    def members(self) -> Sequence[int]:
        """Numbers of the clients that take part."""
        return self.config.server.clients or range(len(self.devices))

    def choose_cohort(self, round: int, opponents: Set[int] = frozenset()) -> Sequence[int]:
        """Return who takes part in a round, of those that are asked at all; `opponents` are not."""
        gone, clients = self.left_out | (opponents if round else self.passed_over), self.clients
        # who has no samples is not chosen to prune first
        sizes = [0 if client in gone else size for client, size in enumerate(clients.num_samples)]
        chosen = (
            draw_secretly(self.config, self.members)
            if self.secret and is_private(self.config)
            else self.method.cohort(round, clients if round else replace(clients, num_samples=sizes))
        )
        drawn = check_cohort(self.method, chosen, self.members)
        there = [client for client in drawn if client not in gone]
        if not there:
            names = ", ".join(str(client) for client in sorted(drawn))
            raise PruneFLError(f"round {round}: client {names} would take part, and is left out of the run")
        return there


@dataclass(frozen=True)
class ServerState:
    """What does. It is all that a checkpoint holds, beside the clients' own state.

    Attributes:
        sparse: the model.
        round: the last round completed; -1 where a stage before round 1 is still to come.
        known: client -> digest of the masks that it is known to hold.
        past: masks by digest, the present ones included, the latest last.
        residual: what quantisation has kept from the clients so far.
        usual_change: norm of a usual client's change in the last round; 0 before the first.
        opposition: client -> how much it has lately pulled against the others; of who is left out for it, as it was.
        evidence: what round times have told of each kind of device (time.refit), by its first client.
        moments: what the server's optimiser remembers, under the model's masks.
        ranges: with privacy.secure, the largest magnitudes of the last means, which say how finely the next are sent.
        spent: all releases of privacy so far, and the clip.
    """

    sparse: SparseState
    round: int
    memory: Memory
    known: Mapping[int, bytes] = field(default_factory=dict)
    past: Mapping[bytes, Masks] = field(default_factory=dict)
    residual: wire.Residual | None = None
    totals: Totals = field(default_factory=Totals)
    evidence: Mapping[int, Evidence] = field(default_factory=dict)
    moments: Moments = field(default_factory=Moments)
    usual_change: float = 0.0
    opposition: Mapping[int, float] = field(default_factory=dict)
    ranges: Mapping[str, float] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True)
class Outcome:
    """What a round came to, for the records; round 0 is the stage before the first.

    Attributes:
        notes: what the method wants to have in the record.
        bounded: client -> what of its reply was out of bounds, and what was done about it.
        opponents: client -> why it is not asked any more.
        evaluation: how the model that came of it does at clients, where they were asked.
        secure: what the secure sum took, with privacy.secure.
    """

    round: int
    cohort: Sequence[int]
    loss: float | None
    charge: Charge
    reconfigured: bool
    refused: Mapping[int, str]
    notes: Mapping[str, Any]
    bounded: Mapping[int, str]
    opponents: Mapping[int, str] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    secure: SecureOutcome | None = None


def start(setup: Setup) -> ServerState:
    """Return the state before the first round; what a method cannot answer is found here."""
    chosen, first = setup.method.first(setup.network), setup.network.first
    check_chosen(setup.method, "first", chosen, setup.network)
    spent = first_spent(setup.config)
    state = ServerState(first, setup.method.first_round - 1, chosen.memory, spent=spent)
    state = _with_masks(setup, state, chosen)
    _next_work(setup, state)
    return state


def begin_round(
    setup: Setup, state: ServerState, cohort: Sequence[int] | None = None
) -> tuple[ServerState, dict[int, Order]]:
    """Return the orders of the next round to its cohort, and the state with what quantisation kept back."""
    round, work = _next_work(setup, state)
    if cohort is None:
        cohort = setup.choose_cohort(round, find_opponents(setup, state).keys())
    rate = schedule.learning_rate(round, setup.config, state.sparse.masks.density)
    packed, residual = pack_by_known(setup, state, {state.known.get(client, b"") for client in cohort})
    return replace(state, residual=residual), {
        c: Order(round, rate, packed[state.known.get(c, b"")], work, clip=state.spent.clip) for c in cohort
    }


def find_opponents(setup: Setup, state: ServerState) -> dict[int, str]:
    """Return who is not asked any more for having pulled against the others, and why."""
    most = setup.config.server.max_opposition
    return bounds.find_opponents(state.opposition, most, len(setup.members))


def _next_work(setup: Setup, state: ServerState) -> tuple[int, Work]:
    round = state.round + 1
    work = setup.method.work(round, state.memory, refit.fleet_time_model(setup, state))
    check_work(setup.method, work, state.sparse.masks.counts)
    return round, work


def begin_evaluation(setup: Setup, state: ServerState, cohort: Sequence[int]) -> dict[int, Order]:
    """Return orders to evaluate the model as it is now, packed as the next round would send it.

    Nothing of it is remembered, neither what quantisation keeps back nor which masks are sent: who is evaluated on
    must not change what is trained.
    """
    packed, _ = pack_by_known(setup, state, {state.known.get(client, b"") for client in cohort})
    config = setup.config
    final = state.round >= config.run.rounds
    work = EvaluationWork(final=final, personal_steps=config.evaluation.personal_steps if final else 0)
    rate = schedule.learning_rate(max(1, state.round), config, state.sparse.masks.density)
    return {c: Order(state.round, rate, packed[state.known.get(c, b"")], work) for c in cohort}


def finish_evaluation(
    setup: Setup, state: ServerState, orders: Mapping[int, Order], replies: Iterable[Reply]
) -> tuple[ServerState, Evaluation]:
    """Return the state with the cost of the evaluation in its totals, and the evaluation.

    Raises:
        RoundFailed: no reply was good.
    """
    got = collect_scores(orders, replies, setup.config.training.weight_cap)
    charge = charge_evaluation(setup, state, orders, got)
    return replace(state, totals=state.totals.plus(charge)), Evaluation(
        got.scores, got.personal, got.refused, charge
    )


def whole_order(setup: Setup, state: ServerState, order: Order) -> Order:
    """Return the order with the whole state in it, for a client that does not have the masks we thought."""
    if isinstance(order.work, SecureWork):
        return order
    return replace(order, model=pack_by_known(setup, state, {b""})[0][b""])


def finish_round(
    setup: Setup, state: ServerState, orders: Mapping[int, Order], replies: Iterable[Reply]
) -> tuple[ServerState, Outcome]:
    """Return the state after aggregation and reconfiguration, and what the round came to.

    Raises:
        RoundFailed: fewer good replies than the quorum; the state given stays valid.
    """
    # what comes before round 1 is many rounds' work: no measure for a round
    measured = (state.usual_change, state.opposition, len(setup.members) if state.round >= 0 else 0)
    mechanism = mechanism_of(setup, state)
    method, template = setup.method, setup.network.template
    got = collect_updates(method, template, state.sparse, orders, replies, *measured, mechanism)
    if mechanism is not None:
        work = next(iter(orders.values())).work
        state = replace(state, spent=spend(setup, state, work, got.next_clip))
    return settle_round(setup, state, orders, got)


def settle_round(
    setup: Setup, state: ServerState, orders: Mapping[int, Order], got: Collected
) -> tuple[ServerState, Outcome]:
    """Return the state after aggregation and reconfiguration of the updates that were collected."""
    method, work = setup.method, next(iter(orders.values())).work
    charge = charge_round(setup, state, orders, got)
    here = state.sparse.masks
    known = {**state.known, **dict.fromkeys(got.participants, here.digest)}
    state = replace(state, known=known, totals=state.totals.plus(charge))
    state = replace(state, evidence=refit.observe_round(setup, state, orders, got))
    combined = check_combined(method, method.combine(work, state.sparse, got.updates, state.memory))
    stepped, moments = _step(setup, state, combined.state)
    usual = got.usual_change if state.round >= 0 else 0.0
    state = replace(state, round=state.round + 1, sparse=stepped, moments=moments)
    state = replace(state, usual_change=usual, opposition=got.opposition)
    seen = Seen(
        state.round,
        work,
        stepped,
        got.statistic,
        got.updates,
        charge.seconds.total,
        combined.memory,
        refit.fleet_time_model(setup, state),
    )
    chosen = method.next(seen)
    check_chosen(method, "next", chosen, setup.network)
    state = _with_masks(setup, state, chosen)
    return state, Outcome(
        state.round,
        sorted(orders),
        got.loss,
        charge,
        reconfigured=chosen.masks != here,
        refused=got.refused,
        notes=chosen.notes,
        bounded=got.bounded,
        opponents=find_opponents(setup, state),
    )


def _step(setup: Setup, state: ServerState, mean: SparseState) -> tuple[SparseState, Moments]:
    """Return the server's step by what the clients made of its model; a stage before round 1 is no change to weigh."""
    if state.round < 0:
        return mean, state.moments
    settings, template = setup.config.server_optimiser, setup.network.template
    return take_step(settings, template, state.sparse, mean, state.moments)


def _with_masks(setup: Setup, state: ServerState, chosen: Chosen) -> ServerState:
    """Return the state with these masks: survivors keep their values, others start at zero (docs/method.md 7)."""
    regrowth = schedule.regrowth(setup.config, max(0, state.round))
    sparse = chosen.state or state.sparse.remask(chosen.masks, *regrowth)
    past = {digest: masks for digest, masks in state.past.items() if digest != sparse.masks.digest}
    past[sparse.masks.digest] = sparse.masks
    past = dict(list(past.items())[-REMEMBERED_MASKS:])
    moments = state.moments.remask(sparse.masks)
    return replace(state, sparse=sparse, memory=chosen.memory, past=past, moments=moments)
