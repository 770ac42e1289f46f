"""A client's half of the round: unpack, train locally, pack. State in, state out; no engine here."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from prunefl import wire
from prunefl.config import Config
from prunefl.core import importance
from prunefl.core.masks import Masks, digest
from prunefl.core.randomness import generator, stream
from prunefl.data import Samples
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.losses import LOSSES
from prunefl.local.torch_backend.threads import running_threads
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds import asks, packing
from prunefl.rounds.initial import initial_pruning
from prunefl.rounds.messages import Order, Reply, State

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class ClientState:
    """What a client remembers between its rounds. It belongs to the client, not to a slot (SPEC 11).

    Attributes:
        masks: the masks it trained last; a values-only message speaks of these.
        sums: importance summed since the last reconfiguration, for all parameters; empty if none.
        steps: how many mini-batches are in the sums.
        residual: what quantisation has kept from the server so far.
    """

    masks: Masks = field(default_factory=dict)
    sums: State = field(default_factory=dict)
    steps: int = 0
    residual: wire.Residual | None = None


def handle(
    order: Order, client: int, state: ClientState, data: Samples, trainer: Trainer, config: Config
) -> tuple[Reply, ClientState]:
    """Return the client's answer to an order, and its state afterwards.

    Raises:
        wire.WireError: the order speaks of masks that this client does not have; it needs the whole state.
    """
    known = {digest(state.masks): state.masks} if state.masks else {}
    values, masks = wire.unpack(order.model, trainer.template, known)
    started = time.perf_counter()
    trainer.generator = generator(config.run.seed, "dropout", order.round, client)
    if order.initial is not None:
        with running_threads(config.initial.threads or config.run.threads):
            reply = initial_pruning(order, client, data, trainer, values, masks, config)
        return replace(reply, seconds=time.perf_counter() - started), ClientState()
    criterion = LOSSES[config.training.loss]
    batches = draw_batches(data, order.round, client, config)
    reply = Reply(client, order.round, len(data), loss=0.0, model=b"")
    reply = asks.before_training(reply, order.ask, trainer, values, masks, batches, criterion)
    values, own_masks = asks.own_model(order.ask, trainer, values, masks, batches, criterion)
    model = trainer.load(values, own_masks)
    if state.sums and digest(state.masks) != digest(masks):
        # the server has chosen anew without us: what was summed speaks of another model
        state = replace(state, sums={}, steps=0)
    state = replace(state, masks=masks)
    if order.ask.collect:
        state = _with_open_sums(state, trainer, len(batches))
    loss, gradients = local_update(model, batches, order, state, config)
    trained, own_masks = asks.after_training(order, model, own_masks, gradients)
    reply = replace(reply, loss=loss, seconds=time.perf_counter() - started)
    return _packed(reply, order, trained, own_masks, state, config)


def draw_batches(data: Samples, round: int, client: int, config: Config) -> list[Batch]:
    """Return the round's mini-batches: samples without replacement, starting over when the data runs out."""
    source = stream(config.run.seed, "batches", round, client)
    steps, size = config.training.local_steps, min(config.training.batch_size, len(data))
    passes = range(0, steps * size, len(data))
    order = np.concatenate([source.permutation(len(data), first=steps * size - done) for done in passes])
    batches = [data.batch(indices, source) for indices in order.reshape(steps, size)]
    return [(torch.from_numpy(inputs), torch.from_numpy(labels)) for inputs, labels in batches]


def local_update(
    model: nn.Module, batches: Sequence[Batch], order: Order, state: ClientState, config: Config
) -> tuple[float, State]:
    """Train in place: one SGD step a batch, w' - lr * g at live positions, g*g added at all (Algorithm 1).

    Returns:
        The mean loss, and the summed gradient at all positions where `dense_update` asks for it.
    """
    criterion, ask = LOSSES[config.training.loss], order.ask
    optimizer = sparse.SGD(model.parameters(), lr=order.learning_rate)
    gradients = asks.empty_gradients(ask, state.masks)
    total = 0.0
    model.train()
    with sparse.collect_gradients(model, state.sums if ask.collect else gradients, mode=asks.mode(ask)):
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            (loss + asks.group_lasso(model, ask, state.masks)).backward()
            optimizer.step()
            total += float(loss.detach())
    return total / len(batches), gradients or {}


def _with_open_sums(state: ClientState, trainer: Trainer, steps: int) -> ClientState:
    """Return the state with sums that so many steps will be added to; a copy: state in, state out."""
    sums = state.sums or importance.empty_sums(trainer.parameter_shapes)
    return replace(state, sums={n: total.clone() for n, total in sums.items()}, steps=state.steps + steps)


def _packed(
    reply: Reply, order: Order, trained: State, masks: Masks, state: ClientState, config: Config
) -> tuple[Reply, ClientState]:
    """Return the reply with its bytes, and the state with what was reported taken out of it."""
    packed, residual = packing.packed(trained, masks, state.masks, config.wire.precision, state.residual)
    if order.ask.report == "importance":
        mean = importance.mean(state.sums, state.steps)
        reply = replace(reply, statistic=wire.pack_importance(mean, precision=config.wire.importance))
        state = replace(state, sums={}, steps=0)
    return replace(reply, model=packed), replace(state, residual=residual)
