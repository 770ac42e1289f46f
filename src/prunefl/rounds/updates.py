"""From replies to updates: checked before they are believed; what is wrong is left out by its reason."""

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from prunefl import wire
from prunefl.core import average, outliers
from prunefl.core.network import Template
from prunefl.core.state import Array, Arrays, SparseState
from prunefl.methods import BadUpdate, Method, Received
from prunefl.rounds.bounds import (
    Bounded,
    bound_losses,
    bound_samples,
    find_opponents,
    follow_opposition,
    hold_to_usual,
)
from prunefl.rounds.collected import THE_SUM, Collected
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.private import (
    Mechanism,
    check_within,
    next_clip,
    release_state,
    release_statistic,
)
from prunefl.system.errors import PruneFLError

NO_REPLY = "no reply"


class RoundFailed(PruneFLError):
    """Too few good replies to finish a round.

    Attributes:
        round: which.
        refused: of every client that sent a bad one, why.
        silent: who was asked and did not answer.
        blames_model: whether most of those who answered were sent a model that gives no finite numbers.
    """

    def __init__(
        self, text: str, round: int, refused: Mapping[int, str], diverged: Set[int] = frozenset()
    ) -> None:
        super().__init__(text)
        self.round = round
        self.refused = {client: why for client, why in refused.items() if why != NO_REPLY}
        self.silent = sorted(refused.keys() - self.refused.keys())

        self.blames_model = len(diverged) > len(self.refused) / 2


class NotFinite(BadUpdate):
    """A loss that is no number: training at this client has diverged."""


@dataclass(frozen=True)
class _Good:
    """A reply that was found to be good; `mass` is the sum of its statistic."""

    reply: Reply
    state: SparseState
    mass: float


def collect_updates(
    method: Method,
    template: Template,
    start: SparseState,
    orders: Mapping[int, Order],
    replies: Iterable[Reply],
    usual_change: float = 0.0,
    opposition: Mapping[int, float] = {},
    members: int = 0,
    mechanism: Mechanism | None = None,
) -> Collected:
    """Return the good updates among the replies, held to what is usual, and the mean of their statistics.

    Args:
        usual_change: the norm of a usual client's change in the round before; 0 if there was none.
        opposition: how much each client has pulled against the others before.
        members: clients of the run, of whom fewer than half can be left out for that; 0: nobody.
        mechanism: how the round is noised, with privacy.noise.

    Raises:
        RoundFailed: fewer than the quorum.
    """
    good: dict[int, _Good] = {}
    refused, sent, diverged = {}, {}, set()
    for reply in replies:
        sent[reply.client] = tuple(len(part) for part in (reply.model, reply.statistic, reply.scores) if part)
        try:
            good[reply.client] = _check(method, template, start, orders.get(reply.client), reply)
        except (wire.WireError, BadUpdate) as error:
            refused[reply.client] = str(error)
            if isinstance(error, NotFinite) or getattr(error, "reason", "") == "values":
                diverged.add(reply.client)
    refused |= {client: NO_REPLY for client in orders if client not in sent}
    _need_quorum(method, orders, len(good), refused, diverged)
    good = dict(sorted(good.items()))
    if mechanism is not None:
        rest = Collected([], None, None, {}, sent, refused)
        return _collect_privately(method, template, start, orders, mechanism, good, rest)
    server, training = method.config.server, method.config.training
    states = {client: one.state for client, one in good.items()}
    changes = hold_to_usual(states, start, usual_change, server.max_change)
    opposition = follow_opposition(changes, start, opposition) if members else {}
    opponents = find_opponents(opposition, server.max_opposition, members)
    refused |= {**changes.absurd, **{client: why for client, why in opponents.items() if client in good}}
    good = {client: one for client, one in good.items() if client not in refused}
    # who is left out of the run is not missed any more
    asked = {client: order for client, order in orders.items() if client not in opponents}
    _need_quorum(method, asked, len(good), refused, diverged)
    counts = bound_samples([one.reply.num_samples for one in good.values()], training.weight_cap)
    shares = dict(zip(good, average.shares(counts, training.weighting), strict=True))
    statistic, liars = _combine_statistics(method, good, shares, orders, template)
    losses = bound_losses([one.reply.loss for one in good.values()])
    return Collected(
        [Received(n, shares[n], changes.states[n], one.reply.numbers) for n, one in good.items()],
        statistic,
        sum(share * loss for share, loss in zip(shares.values(), losses, strict=True)),
        {client: one.reply.seconds for client, one in good.items()},
        sent,
        refused,
        _join(changes.words, liars),
        changes.usual,
        opposition,
        participants={client: one.reply.numbers for client, one in good.items()},
    )


def _collect_privately(
    method: Method,
    template: Template,
    start: SparseState,
    orders: Mapping[int, Order],
    mechanism: Mechanism,
    good: Mapping[int, _Good],
    rest: Collected,
) -> Collected:
    """Return the noised mean as the only update, and the noised statistic; `rest` is what tells nothing of samples."""
    state = release_state(mechanism, start, [one.state for one in good.values()])
    report = next(iter(orders.values())).work.report
    statistic = None
    if report:
        unpacked = (_unpack_statistic(one.reply, orders[n], template) for n, one in good.items())
        statistic = release_statistic(mechanism, report, unpacked, template.parameters)
    said = {client: one.reply.numbers for client, one in good.items()}
    return replace(
        rest,
        updates=[Received(THE_SUM, 1.0, state, {})],
        statistic=statistic,
        participants={client: check_within(method.config, numbers) for client, numbers in said.items()},
        next_clip=next_clip(method.config, mechanism, said.values()),
    )


def _join(*found: Bounded) -> Bounded:
    """Return all that is said of each client, in one text."""
    clients = sorted({client for words in found for client in words})
    return {client: "; ".join(words[client] for words in found if client in words) for client in clients}


def _check(
    method: Method, template: Template, start: SparseState, order: Order | None, reply: Reply
) -> _Good:
    """Return the reply with its state unpacked, or say what is wrong with it."""
    if order is None or reply.round != order.round:
        raise BadUpdate(f"reply for round {reply.round}, which this client was not asked for")
    if not math.isfinite(reply.loss):
        raise NotFinite(f"loss turned {reply.loss}")
    if reply.num_samples < 1:
        raise BadUpdate(f"num_samples={reply.num_samples}, must be >= 1")
    state = wire.unpack(reply.model, template, {start.masks.digest: start.masks})
    if not order.work.own_masks and state.masks != start.masks:
        raise BadUpdate("update for other masks than the server's")
    if bool(reply.statistic) != bool(order.work.report):
        raise BadUpdate(f"statistic {order.work.report or 'none'!r} was asked for")
    # unpacked for good one by one, when all are known to be good: together they could fill the memory
    mass = outliers.measure_mass(_unpack_statistic(reply, order, template)) if reply.statistic else 0.0
    if reply.scores:
        raise BadUpdate("scores, which were not asked for")
    method.check(order.work, check_within(method.config, reply.numbers), start.masks)
    clip_norm = method.config.server.clip_norm
    if clip_norm and not order.work.own_masks:
        state = average.clip_change(state, start, clip_norm)
    # A round of full models is heavy: the bytes go as soon as they are unpacked.
    return _Good(replace(reply, model=b""), state, mass)


def count_needed(quorum: float, min_clients: int, clients: int) -> int:
    """Return how many of so many clients' updates finish a round: a quorum, or as many as the run waits for."""
    return min(min_clients, clients) if min_clients else max(1, math.ceil(quorum * clients))


def name_need(quorum: float, min_clients: int) -> str:
    """Return the setting that says so."""
    return f"server.min_clients={min_clients}" if min_clients else f"server.quorum={quorum}"


def _need_quorum(
    method: Method, orders: Mapping[int, Order], good: int, refused: Mapping[int, str], diverged: set[int]
) -> None:
    """Refuse to go on with too few good updates.

    Args:
        diverged: whose numbers were not finite; where that is what is wrong with all that came, training has diverged.
    """
    server = method.config.server
    need = count_needed(server.quorum, server.min_clients, len(orders))
    if good >= need:
        return
    came = {client: why for client, why in refused.items() if why != NO_REPLY}
    first, order = min(came or refused), next(iter(orders.values()))
    found = f"round {order.round}"
    if came and came.keys() <= diverged:
        found = f"training diverged in {found}, rate {order.learning_rate:g} (lower training.learning_rate)"
    raise RoundFailed(
        f"{found}: {good} of {len(orders)} updates were good, {need} are needed "
        f"({name_need(server.quorum, server.min_clients)}); client {first}: {refused[first]}",
        order.round,
        refused,
        diverged,
    )


def _combine_statistics(
    method: Method,
    good: Mapping[int, _Good],
    shares: Mapping[int, float],
    orders: Mapping[int, Order],
    template: Template,
) -> tuple[Arrays | None, Bounded]:
    """Return the clients' statistics made one as server.aggregate says, and whose are left out of it."""
    masses = {client: one.mass for client, one in good.items() if one.reply.statistic}
    if not masses:
        return None, {}
    server, most = method.config.server, method.config.server.max_statistic
    times = outliers.times_usual(masses, outliers.find_usual(list(masses.values()), 0.0))
    liars = {
        client: f"importance {ratio:.3g} times the median of the round: left out"
        for client, ratio in times.items()
        if most and ratio > most
    }
    kept = [client for client in masses if client not in liars]
    total = sum(shares[client] for client in kept)
    # the same bits where nobody is left out: shares then add up to one but for rounding
    weights = [shares[client] / total if liars else shares[client] for client in kept]
    unpacked = (_unpack_statistic(good[client].reply, orders[client], template) for client in kept)
    combine = average.choose_combine(server.aggregate, server.trim)
    return average.combine_statistics(unpacked, weights, combine), liars


def _unpack_statistic(reply: Reply, order: Order, template: Template) -> dict[str, Array]:
    return wire.unpack_importance(reply.statistic, template, signed=order.work.report == "gradient")
