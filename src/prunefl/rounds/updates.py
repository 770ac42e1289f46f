"""From replies to updates: checked before they are believed; what is wrong is left out by its reason."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from prunefl import wire
from prunefl.core import average
from prunefl.core.network import Template
from prunefl.core.state import Array, Arrays, SparseState
from prunefl.methods import BadUpdate, Method, Received
from prunefl.rounds.messages import Order, Reply
from prunefl.system.errors import PruneFLError

NO_REPLY = "no reply"


class RoundFailed(PruneFLError):
    """Too few good replies to finish a round; `refused` says of every client that sent a bad one why."""

    def __init__(self, text: str, refused: Mapping[int, str]) -> None:
        super().__init__(text)
        self.refused = refused


class NotFinite(BadUpdate):
    """A loss that is no number: training at this client has diverged."""


@dataclass(frozen=True)
class Collected:
    """What came of a round's orders.

    Attributes:
        updates: the good ones, in the clients' order, whoever came first.
        statistic: p_n-weighted mean of what the clients reported, or None.
        loss: p_n-weighted mean of the training losses.
        seconds: client -> compute time that it measured.
        sent: client -> bytes of each message that came, refused ones too.
        refused: client -> why its reply was left out.
    """

    updates: Sequence[Received]
    statistic: Arrays | None
    loss: float
    seconds: Mapping[int, float]
    sent: Mapping[int, tuple[int, ...]]
    refused: Mapping[int, str]


def collect_updates(
    method: Method,
    template: Template,
    start: SparseState,
    orders: Mapping[int, Order],
    replies: Iterable[Reply],
) -> Collected:
    """Return the good updates among the replies, and the mean of their statistics.

    Raises:
        RoundFailed: fewer than the quorum.
    """
    good: dict[int, tuple[Reply, SparseState]] = {}
    refused, sent, diverged = {}, {}, set()
    for reply in replies:
        sent[reply.client] = tuple(len(part) for part in (reply.model, reply.statistic, reply.scores) if part)
        try:
            state = _checked_state(method, template, start, orders.get(reply.client), reply)
        except (wire.WireError, BadUpdate) as error:
            refused[reply.client] = str(error)
            if isinstance(error, NotFinite) or getattr(error, "reason", "") == "values":
                diverged.add(reply.client)
        else:
            # A round of full models is heavy: the bytes go as soon as they are unpacked.
            good[reply.client] = replace(reply, model=b""), state
    refused |= {client: NO_REPLY for client in orders if client not in sent}
    _need_quorum(method, orders, len(good), refused, diverged)
    clients = sorted(good)
    weighting = method.config.training.weighting
    shares = average.shares([good[client][0].num_samples for client in clients], weighting)
    updates = [
        Received(client, share, good[client][1], good[client][0].numbers)
        for client, share in zip(clients, shares, strict=True)
    ]
    sharers = [(good[update.client][0], update.share) for update in updates]
    return Collected(
        updates,
        _mean_statistic(sharers, orders, template),
        sum(share * reply.loss for reply, share in sharers),
        {client: good[client][0].seconds for client in clients},
        sent,
        refused,
    )


def _checked_state(
    method: Method, template: Template, start: SparseState, order: Order | None, reply: Reply
) -> SparseState:
    """Return the reply's state unpacked, or say what is wrong with the reply."""
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
    if reply.statistic:
        # unpacked for good one by one, when all are known to be good: together they could fill the memory
        _unpack_statistic(reply, order, template)
    if reply.scores:
        raise BadUpdate("scores, which were not asked for")
    method.check(order.work, reply.numbers, start.masks)
    clip_norm = method.config.server.clip_norm
    if clip_norm and not order.work.own_masks:
        state = average.clip_change(state, start, clip_norm)
    return state


def _need_quorum(
    method: Method, orders: Mapping[int, Order], good: int, refused: Mapping[int, str], diverged: set[int]
) -> None:
    """Refuse to go on with too few good updates.

    Args:
        diverged: whose numbers were not finite; where that is what is wrong with all that came, training has diverged.
    """
    quorum = method.config.server.quorum
    need = max(1, math.ceil(quorum * len(orders)))
    if good >= need:
        return
    came = {client: why for client, why in refused.items() if why != NO_REPLY}
    first, order = min(came or refused), next(iter(orders.values()))
    found = f"round {order.round}"
    if came and came.keys() <= diverged:
        found = f"training diverged in {found}, rate {order.learning_rate:g} (lower training.learning_rate)"
    raise RoundFailed(
        f"{found}: {good} of {len(orders)} updates were good, {need} are needed "
        f"(server.quorum={quorum}); client {first}: {refused[first]}",
        came,
    )


def _mean_statistic(
    replies: Sequence[tuple[Reply, float]], orders: Mapping[int, Order], template: Template
) -> Arrays | None:
    """Return the p_n-weighted mean of the reported statistics, one client after another to save memory."""
    total: dict[str, Array] = {}
    for reply, share in replies:
        if reply.statistic:
            for name, value in _unpack_statistic(reply, orders[reply.client], template).items():
                total[name] = average.add_weighted(total.get(name), value, share)
    return total or None


def _unpack_statistic(reply: Reply, order: Order, template: Template) -> dict[str, Array]:
    return wire.unpack_importance(reply.statistic, template, signed=order.work.report == "gradient")
