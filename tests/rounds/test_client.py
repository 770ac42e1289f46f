"""A client's half of the round: bytes in, the method's work, bytes out, and what it remembers between."""

from dataclasses import replace

import numpy as np
import pytest

from dense_oracle import assert_close, train_densely
from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.state import SparseState
from prunefl.local import Local, make_backend
from prunefl.local.batches import draw_batches
from prunefl.methods import Method, Update, Work
from prunefl.methods.prunefl import Collect
from prunefl.rounds.client import Client, ClientState, handle
from prunefl.rounds.messages import Order, Reply
from tasks import random_masks, same_bits, small_client, small_config, small_network

CONFIG = small_config()
NETWORK = small_network()
MASKS = random_masks(NETWORK, 0.5)
START = NETWORK.first.remask(MASKS)


def order(state: SparseState = START, known: Masks | None = None, work: Work | None = None) -> Order:
    return Order(1, 0.1, wire.pack(state, known=known), work or Collect())


def unpacked(reply: Reply) -> SparseState:
    return wire.unpack(reply.model, NETWORK.template, {MASKS.digest: MASKS})


def test_local_training_is_masked_sgd() -> None:
    client = small_client(CONFIG, NETWORK)
    reply, after = handle(order(), client, ClientState())
    batches = draw_batches(client.samples, 1, 2, CONFIG)
    expected = train_densely(NETWORK.module, START, batches, rate=0.1)
    trained = unpacked(reply)
    assert trained.masks == after.masks == MASKS
    assert_close({name: trained.dense(name) for name in trained.values}, expected.values)
    assert reply.loss == pytest.approx(expected.loss, rel=1e-5)
    assert (reply.client, reply.round, reply.num_samples) == (2, 1, 60)
    assert reply.seconds > 0


def test_values_only_orders_need_the_masks_they_speak_of() -> None:
    client = small_client(CONFIG, NETWORK)
    with pytest.raises(wire.WireError):
        handle(order(known=MASKS), client, ClientState())
    with pytest.raises(wire.WireError):
        handle(order(known=MASKS), client, ClientState(random_masks(NETWORK, 0.5, seed=4)))
    reply, _ = handle(order(known=MASKS), client, ClientState(MASKS))
    whole, _ = handle(order(), client, ClientState())
    assert same_bits(unpacked(reply).values, unpacked(whole).values)


def test_layers_choose_by_what_batches_of_the_run_need() -> None:
    asked: list[str] = []

    class Watched(dict[str, float]):
        def __contains__(self, layer: object) -> bool:
            asked.append(str(layer))
            return True

        def __missing__(self, layer: str) -> float:
            return 0.9

    client = replace(small_client(CONFIG, NETWORK), backend=make_backend(NETWORK, CONFIG, Watched()))
    handle(order(NETWORK.first.remask(random_masks(NETWORK, 0.8))), client, ClientState())
    assert any("(20, 1, 8, 8)" in layer for layer in asked)
    assert any("(20, 128)" in layer for layer in asked)


def test_what_a_client_does_depends_on_nobody_who_used_its_backend_before() -> None:
    """Dropout and BatchNorm included: a worker's network serves one client after another."""
    network = small_network(normalised=True, dropout=True)
    client = small_client(CONFIG, network)
    state = network.first.remask(random_masks(network, 0.5))
    alone, _ = handle(order(state), client, ClientState())
    handle(order(network.first), replace(client, number=1), ClientState())
    again, _ = handle(order(state), client, ClientState())
    assert alone.model == again.model
    other, _ = handle(order(state), replace(client, number=1), ClientState())
    assert other.model != alone.model


class Remembers(Method):
    """Counts its rounds, and under which masks the last was."""

    def train(self, work: Work, local: Local) -> Update:
        seen = local.memory.number("rounds")
        same = float(local.same_masks)
        return Update(
            local.state, 0.5, numbers={"seen": seen, "same": same}, memory=Memory({"rounds": seen + 1})
        )


def test_a_method_finds_its_memory_again_and_whether_the_masks_are_those_of_then() -> None:
    client: Client = replace(small_client(CONFIG, NETWORK), method=Remembers(CONFIG))
    other = START.remask(random_masks(NETWORK, 0.4))
    state, told = ClientState(), []
    for sent in (START, START, other, START):
        reply, state = handle(order(sent, work=Work()), client, state)
        told.append(dict(reply.numbers))
    assert [numbers["seen"] for numbers in told] == [0, 1, 2, 3]
    assert [numbers["same"] for numbers in told] == [0, 1, 0, 0]


def test_what_rounding_keeps_back_is_sent_later_and_forgotten_with_its_masks() -> None:
    config = small_config(wire={"precision": "int8"})
    client = replace(small_client(config, NETWORK), method=Remembers(config))
    _, first = handle(order(work=Work()), client, ClientState())
    assert first.residual is not None
    assert first.residual.digest == MASKS.digest
    reply, second = handle(order(work=Work()), client, first)
    assert second.residual is not None
    # what arrives and what is kept back are together what was to be sent and what was kept back before
    for name in MASKS:
        arrived = unpacked(reply).values[name] + second.residual.values[name]
        wanted = START.values[name] + first.residual.values[name]
        np.testing.assert_allclose(arrived, wanted, rtol=1e-5, atol=1e-7)
    _, third = handle(order(START.remask(random_masks(NETWORK, 0.4)), work=Work()), client, second)
    assert third.residual is not None
    assert third.residual.digest != MASKS.digest


def test_before_the_first_round_a_model_is_sent_exactly() -> None:
    config = small_config(wire={"precision": "int8"})
    client = replace(small_client(config, NETWORK), method=Remembers(config))
    reply, after = handle(replace(order(work=Work()), round=0), client, ClientState())
    assert same_bits(unpacked(reply).values, START.values)
    assert after.residual is None
