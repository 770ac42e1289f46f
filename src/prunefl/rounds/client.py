"""A client's half of the round: unpack, do the method's work, pack. State in, state out; no engine here."""

import time
from dataclasses import dataclass, field, replace
from functools import cached_property

from prunefl import wire
from prunefl.config import Config
from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.moments import Moments
from prunefl.core.network import Network
from prunefl.core.randomness import derived_seed
from prunefl.core.state import SparseState
from prunefl.data import Samples
from prunefl.local import Backend, Local, OnPass
from prunefl.local.batches import personal_batches
from prunefl.local.held_out import Split, count_right, split_samples
from prunefl.methods import Method, Update
from prunefl.rounds.answers import check_update
from prunefl.rounds.messages import EvaluationWork, Order, Reply
from prunefl.rounds.private import is_private, make_private
from prunefl.rounds.scores import Score, pack_scores
from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class ClientState:
    """What a client remembers between its rounds. It belongs to the client, not to a slot (docs/method.md 11).

    Attributes:
        masks: the masks that it was sent last; a values-only message speaks of these. None before the first.
        memory: what the method's client half wants to find again.
        residual: what quantisation has kept from the server so far.
        moments: what the optimiser remembers (optimiser.keep), under masks of its own.
    """

    masks: Masks | None = None
    memory: Memory = field(default_factory=Memory)
    residual: wire.Residual | None = None
    moments: Moments = field(default_factory=Moments)


@dataclass(frozen=True)
class Client:
    """A client as it stands ready for orders: its samples, all of them, and what trains there.

    One backend may serve many.
    """

    number: int
    samples: Samples
    network: Network
    backend: Backend
    method: Method
    config: Config
    on_pass: OnPass = lambda done, most, density: None

    @cached_property
    def split(self) -> Split:
        """The samples that it trains on, and those that it holds out."""
        return split_samples(self.samples, self.number, self.config)


def follow(order: Order, client: Client, state: ClientState) -> tuple[Reply, ClientState]:
    """Return the answer to any order; an evaluation leaves the state as it is."""
    if isinstance(order.work, EvaluationWork):
        return evaluate(order, order.work, client, state)[0], state
    return handle(order, client, state)


def evaluate(
    order: Order, work: EvaluationWork, client: Client, state: ClientState
) -> tuple[Reply, SparseState | None]:
    """Return how the model in the order does on the samples that this client holds out; and its personal model, if any.

    Raises:
        wire.WireError: as `handle`.
    """
    if client.split.held_out is None:
        raise PruneFLError("asked to evaluate, but evaluation.share=0 holds out no samples")
    received = _unpack(order, client, state)
    started = time.perf_counter()
    client.backend.begin()
    client.backend.load(received)
    scores, personal = [_score(client, client.split.held_out)], None
    if work.personal_steps:
        personal = _personalise(client, work.personal_steps, order.learning_rate)
        scores.append(_score(client, client.split.held_out))
    reply = Reply(
        client.number,
        order.round,
        len(client.split.train),
        scores[0].loss,
        b"",
        seconds=time.perf_counter() - started,
        held_out=client.split.num_held_out,
        scores=pack_scores(*scores),
    )
    return reply, personal


def _score(client: Client, held_out: Samples) -> Score:
    right, loss = count_right(client.backend, held_out, client.config.run.eval_batch)
    return Score(right, len(held_out), loss)


def _personalise(client: Client, steps: int, rate: float) -> SparseState:
    """Return the loaded model after so many steps of SGD on the client's own samples, under its masks."""
    # seeded before a load: that is when dropout takes it over
    state = client.backend.state()
    client.backend.seed(derived_seed(client.config.run.seed, "personal dropout", client.number))
    client.backend.load(state)
    for portion in personal_batches(client.split.train, steps, client.number, client.config):
        client.backend.steps(portion, rate)
    return client.backend.state()


def _unpack(order: Order, client: Client, state: ClientState) -> SparseState:
    known = {} if state.masks is None else {state.masks.digest: state.masks}
    return wire.unpack(order.model, client.network.template, known)


def handle(order: Order, client: Client, state: ClientState) -> tuple[Reply, ClientState]:
    """Return the client's update as the order wants it, and its state afterwards.

    Raises:
        wire.WireError: the order speaks of masks that this client does not have; it needs the whole state.
    """
    trained = train(order, client, state)
    return _pack(order, client, trained.update, trained.seconds, trained.after)


@dataclass(frozen=True)
class Trained:
    """What a client made of an order: its update, from the state that it received; and its own state afterwards."""

    update: Update
    received: SparseState
    seconds: float
    after: ClientState


def train(order: Order, client: Client, state: ClientState) -> Trained:
    """Return what the method's client half makes of an order; WireError as `handle`."""
    received = _unpack(order, client, state)
    started = time.perf_counter()
    client.backend.seed(derived_seed(client.config.run.seed, "dropout", order.round, client.number))
    # before the first round nobody averages: there is nothing to be pulled back to
    client.backend.begin(state.moments, received if order.round else None)
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
        samples=client.split.train,
        backend=client.backend,
        on_pass=client.on_pass,
    )
    update = check_update(client.method, order.work, client.method.train(order.work, local))
    if is_private(client.config):
        update = make_private(client.config, update, received, order.clip)
    keeps = client.config.optimiser.keep and order.round > 0
    moments = client.backend.moments() if keeps else Moments()
    after = ClientState(received.masks, update.memory, state.residual, moments)
    return Trained(update, received, time.perf_counter() - started, after)


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
    private = is_private(client.config)
    reply = Reply(
        client.number,
        order.round,
        1 if private else len(client.split.train),
        update.loss,
        model,
        statistic,
        update.numbers,
        0.0 if private else seconds,
    )
    return reply, replace(state, residual=residual)
