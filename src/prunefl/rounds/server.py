"""The server's half of the round: orders out, replies in, next masks. State in, state out; no engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from prunefl import wire
from prunefl.config import Config
from prunefl.core import schedule
from prunefl.core.masks import DenseView, Masks, digest, remask
from prunefl.core.randomness import draw_clients
from prunefl.core.refit import Evidence
from prunefl.core.time_json import to_json
from prunefl.core.time_model import TimeModel
from prunefl.devices import Device
from prunefl.local import torch_backend as sparse
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.rounds import cost as charges
from prunefl.rounds import observed, packing
from prunefl.rounds.cost import Charge, Totals
from prunefl.rounds.messages import Order, Reply, Segment, State
from prunefl.rounds.updates import Collected, collect

REMEMBERED_MASKS = 3
"""How many former masks the server keeps, to send a change instead of a whole pattern."""


@dataclass(frozen=True)
class Setup:
    """What does not change during a run.

    Attributes:
        model: the network with its first weights.
        names: its prunable weights.
        num_samples: D_n of every client.
        devices: the device of every client.
        time_model: T(M) of the fleet.
        positions: output positions of a sample at which each weight of a layer works, for FLOPs.
        layer_sizes: weights of each prunable layer.
        cut: how the data was divided among the clients, in words.
    """

    config: Config
    model: nn.Module
    input_shape: tuple[int, ...]
    classes: int
    num_samples: Sequence[int]
    devices: Sequence[Device]
    time_model: TimeModel
    template: wire.Template
    names: Sequence[str]
    pruner: Pruner
    positions: Mapping[str, int]
    layer_sizes: Mapping[str, int]
    cut: str

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of a mini-batch."""
        return (self.config.training.batch_size, *self.input_shape)


@dataclass(frozen=True)
class ServerState:
    """What does. It is all that a checkpoint holds, beside the clients' own state.

    Attributes:
        round: rounds completed.
        pruned: whether initial pruning is behind us, or not wanted.
        values: the model: live values in row-major order where there is a mask, whole tensors elsewhere.
        known: client -> digest of the masks that it is known to hold.
        past: masks by digest, the present ones included, the latest last.
        residual: what quantisation has kept from the clients so far.
        evidence: what round times have told of each kind of device (time.refit), by its first client.
    """

    values: State
    masks: Masks
    round: int = 0
    pruned: bool = False
    known: Mapping[int, bytes] = field(default_factory=dict)
    past: Mapping[bytes, Masks] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    residual: wire.Residual | None = None
    totals: Totals = field(default_factory=Totals)
    evidence: Mapping[int, Evidence] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a round came to, for the records."""

    round: int
    cohort: Sequence[int]
    loss: float
    charge: Charge
    collected: bool
    """Whether clients collected importance."""
    reconfigured: bool
    refused: Mapping[int, str]
    segments: Sequence[Segment]


def start(setup: Setup) -> ServerState:
    """Return the state before the first round."""
    weights = sparse.state_of(setup.model)
    chosen = setup.pruner.first(setup.model, setup.names, setup.input_shape)
    state = ServerState(weights, chosen.masks, pruned=setup.pruner.initial() is None)
    return _with_masks(setup, state, chosen, full_weights=weights)


def begin_round(setup: Setup, state: ServerState) -> tuple[ServerState, dict[int, Order]]:
    """Return the orders of the next round by client, and the state with what quantisation kept back."""
    config, plan = setup.config, setup.pruner.initial()
    round = state.round + 1 if state.pruned else 0
    if state.pruned or plan is None:
        cohort = draw_clients(config.run.seed, round, len(setup.devices), config.training.participants)
        order = Order(
            round, schedule.learning_rate(round, config), b"", setup.pruner.ask(round, state.memory)
        )
    else:
        cohort = [charges.initial_client(setup, plan)]
        rate = schedule.learning_rate(1, config)
        order = Order(0, rate, b"", initial=plan, time_model=to_json(setup.time_model))
    packed, residual = _packed_by_known(setup, state, {state.known.get(client, b"") for client in cohort})
    orders = {client: replace(order, model=packed[state.known.get(client, b"")]) for client in cohort}
    return replace(state, residual=residual), orders


def whole_order(setup: Setup, state: ServerState, order: Order) -> Order:
    """Return the order with the whole state in it, for a client that does not have the masks we thought."""
    return replace(order, model=_packed_by_known(setup, state, {b""})[0][b""])


def finish_round(
    setup: Setup, state: ServerState, orders: Mapping[int, Order], replies: Iterable[Reply]
) -> tuple[ServerState, Outcome]:
    """Return the state after aggregation and reconfiguration, and what the round came to.

    Raises:
        RoundFailed: fewer good replies than the quorum; the state given stays valid.
    """
    got = collect(setup.config, setup.template, state.values, state.masks, orders, replies)
    charge = charges.of_round(setup, state, orders, got.replies, got.sent)
    here = digest(state.masks)
    known = {**state.known, **{reply.client: here for reply in got.replies}}
    state = replace(state, known=known, totals=state.totals.plus(charge))
    state = replace(state, evidence=observed.after_round(setup, state, orders, got))
    if not state.pruned:
        state = replace(state, pruned=True)
        chosen = Chosen(got.masks, state.memory, weights=got.values)
    else:
        state = replace(state, round=state.round + 1, values=got.values, masks=got.masks)
        chosen = setup.pruner.next(_seen(setup, state, got, charge))
    reconfigured = digest(chosen.masks) != here
    state = _with_masks(setup, state, chosen, full_weights=None)
    return state, Outcome(
        state.round,
        sorted(orders),
        got.loss,
        charge,
        collected=any(order.ask.collect for order in orders.values()),
        reconfigured=reconfigured,
        refused=got.refused,
        segments=got.replies[0].segments,
    )


def _seen(setup: Setup, state: ServerState, got: Collected, charge: Charge) -> Seen:
    weights = DenseView(state.values, state.masks)
    return Seen(
        state.round,
        weights,
        state.masks,
        got.statistic,
        got.replies,
        charge.seconds.total,
        state.memory,
        observed.time_model(setup, state),
    )


def _with_masks(setup: Setup, state: ServerState, chosen: Chosen, full_weights: State | None) -> ServerState:
    """Return the state with these masks: survivors keep their values, others start at zero (SPEC 7)."""
    if chosen.weights is not None:
        values = {
            n: v if n not in chosen.masks or v.dim() == 1 else v[chosen.masks[n]]
            for n, v in chosen.weights.items()
        }
    elif chosen.masks is state.masks and full_weights is None:
        values = state.values
    else:
        weights = full_weights or DenseView(state.values, state.masks)
        source = schedule.regrowth(setup.config, state.round)
        values = remask(weights, state.masks, chosen.masks, *source)
    past = {**state.past}
    past.pop(digest(chosen.masks), None)
    past[digest(chosen.masks)] = chosen.masks
    past = dict(list(past.items())[-REMEMBERED_MASKS:])
    return replace(state, values=values, masks=chosen.masks, memory=chosen.memory, past=past)


def _packed_by_known(
    setup: Setup, state: ServerState, digests: set[bytes]
) -> tuple[dict[bytes, bytes], wire.Residual | None]:
    """Return the model packed for holders of each of these masks (b"" for none), and the residual."""
    precision = setup.config.wire.precision
    made = {
        name: packing.packed(state.values, state.masks, state.past.get(name), precision, state.residual)
        for name in sorted(digests)
    }
    residual = next(iter(made.values()))[1]
    return {name: packed for name, (packed, _) in made.items()}, residual
