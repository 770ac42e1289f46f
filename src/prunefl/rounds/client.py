"""A client's half of the round: unpack, do the method's work, pack. State in, state out; no engine here."""

import time
from dataclasses import dataclass, field

from prunefl import wire
from prunefl.config import Config
from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.randomness import derived_seed
from prunefl.data import Samples
from prunefl.local import Backend, Local, OnPass
from prunefl.methods import Method, Update
from prunefl.rounds.answers import check_update
from prunefl.rounds.messages import Order, Reply


@dataclass(frozen=True)
class ClientState:
    """What a client remembers between its rounds. It belongs to the client, not to a slot (docs/method.md 11).

    Attributes:
        masks: the masks that it was sent last; a values-only message speaks of these. None before the first.
        memory: what the method's client half wants to find again.
        residual: what quantisation has kept from the server so far.
    """

    masks: Masks | None = None
    memory: Memory = field(default_factory=Memory)
    residual: wire.Residual | None = None


@dataclass(frozen=True)
class Client:
    """A client as it stands ready for orders: its samples, and what trains there. One backend may serve many."""

    number: int
    samples: Samples
    network: Network
    backend: Backend
    method: Method
    config: Config
    on_pass: OnPass = lambda done, most, density: None


def handle(order: Order, client: Client, state: ClientState) -> tuple[Reply, ClientState]:
    """Return the client's answer to an order, and its state afterwards.

    Raises:
        wire.WireError: the order speaks of masks that this client does not have; it needs the whole state.
    """
    known = {} if state.masks is None else {state.masks.digest: state.masks}
    received = wire.unpack(order.model, client.network.template, known)
    started = time.perf_counter()
    client.backend.seed(derived_seed(client.config.run.seed, "dropout", order.round, client.number))
    client.backend.load(received)
    local = Local(
        client=client.number,
        round=order.round,
        rate=order.learning_rate,
        received=received,
        memory=state.memory,
        same_masks=state.masks == received.masks,
        config=client.config,
        template=client.network.template,
        classes=client.network.classes,
        samples=client.samples,
        backend=client.backend,
        on_pass=client.on_pass,
    )
    update = check_update(client.method, order.work, client.method.train(order.work, local))
    return _pack(
        order,
        client,
        update,
        time.perf_counter() - started,
        ClientState(received.masks, update.memory, state.residual),
    )


def _pack(
    order: Order, client: Client, update: Update, seconds: float, state: ClientState
) -> tuple[Reply, ClientState]:
    """Return the reply with its bytes, and the state with what rounding has kept back."""
    config = client.config.wire
    # what is sent before the first round is a whole model, once: it is sent exactly
    precision = config.precision if order.round else "float32"
    model, residual = wire.pack_with_feedback(
        update.state, state.residual, known=state.masks, precision=precision
    )
    statistic = b""
    if update.statistic is not None:
        wanted = config.importance if order.work.report == "importance" else "float32"
        statistic = wire.pack_importance(update.statistic, precision=wanted)
    reply = Reply(
        client.number,
        order.round,
        len(client.samples),
        update.loss,
        model,
        statistic,
        update.numbers,
        seconds,
    )
    return reply, ClientState(state.masks, state.memory, residual)
