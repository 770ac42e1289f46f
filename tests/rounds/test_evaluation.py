"""Evaluation at the clients: scores against torch's own, means and costs against a few lines of arithmetic."""

import struct
from dataclasses import replace

import numpy as np
import pytest
import torch

from dense_oracle import assert_close, train_densely
from prunefl import wire
from prunefl.core.memory import Memory
from prunefl.core.randomness import stream
from prunefl.local.torch_backend.backend import module_with
from prunefl.methods import BadUpdate, Work
from prunefl.methods.prunefl import Collect
from prunefl.rounds.client import ClientState, evaluate, follow, handle
from prunefl.rounds.cost import Charge, Seconds, step_flops
from prunefl.rounds.evaluation import Evaluation
from prunefl.rounds.messages import EvaluationWork, Order, Reply
from prunefl.rounds.scores import Score, collect_scores, pack_scores, unpack_scores
from prunefl.rounds.server import ServerState, begin_evaluation, finish_evaluation
from prunefl.rounds.updates import RoundFailed
from tasks import (
    random_masks,
    same_bits,
    small_client,
    small_config,
    small_federation,
    small_network,
    small_setup,
)

CONFIG = small_config(evaluation={"share": 0.3}, run={"eval_batch": 7})
NETWORK = small_network(normalised=True, dropout=True)
MASKS = random_masks(NETWORK, 0.5)
START = NETWORK.first.remask(MASKS)
NO_CHARGE = Charge(Seconds(), 0, 0, 0.0)


def order(work: Work, known=None) -> Order:
    return Order(4, 0.1, wire.pack(START, known=known), work)


def test_a_client_scores_the_model_it_receives_as_torch_does() -> None:
    client = small_client(CONFIG, NETWORK)
    reply, _ = follow(order(EvaluationWork()), client, ClientState())
    samples = client.split.held_out
    assert samples is not None
    inputs, labels = samples.batch(np.arange(18))
    with torch.no_grad():
        logits = module_with(NETWORK.module, START).eval()(torch.from_numpy(inputs))
    right = int((logits.argmax(1).numpy() == labels).sum())
    (score,) = unpack_scores(reply.scores, 1)
    # 0.3 of 60 samples
    assert (score.right, score.samples, reply.num_samples, reply.held_out) == (right, 18, 42, 18)
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    assert score.loss == pytest.approx(float(loss), rel=1e-5)
    assert (reply.model, reply.statistic, reply.numbers) == (b"", b"", {})


def test_held_out_samples_are_never_trained_on() -> None:
    client = small_client(CONFIG, NETWORK)
    held_out = set(client.split.held_out.rows.tolist())  # type: ignore[union-attr]
    seen: set[int] = set()

    class Watched:
        def __len__(self) -> int:
            return len(client.samples)

        def batch(self, indices, stream=None):
            seen.update(indices.tolist())
            return client.samples.batch(indices, stream)

    for round in range(1, 30):
        ordered = replace(order(Collect()), round=round)
        handle(ordered, replace(client, samples=Watched()), ClientState())
    assert seen == set(range(60)) - held_out


def test_an_evaluation_changes_neither_a_clients_state_nor_the_bits_of_its_training() -> None:
    client = small_client(CONFIG, NETWORK)
    plain, _ = handle(order(Collect()), client, ClientState())
    state = ClientState(MASKS)
    _, after = follow(order(EvaluationWork(), MASKS), client, state)
    assert after is state
    again, _ = handle(order(Collect()), client, ClientState())
    assert (again.model, again.loss, again.statistic) == (plain.model, plain.loss, plain.statistic)


def test_a_personal_model_is_sgd_on_the_clients_own_samples_under_the_same_masks() -> None:
    network = small_network()
    masks = random_masks(network, 0.5)
    start = network.first.remask(masks)
    client = small_client(CONFIG, network)
    # more steps than are drawn at once: samples in the order of permutations, one after another
    source = stream(CONFIG.run.seed, "personal", client.number)
    rows: list[int] = []
    batches = []
    for portion in (50, 3):
        while len(rows) < 20 * portion:
            rows += source.permutation(42, 20 * portion).tolist()
        batches += [np.array(rows[20 * n : 20 * n + 20]) for n in range(portion)]
        rows = []
    expected = train_densely(
        network.module, start, [client.split.train.batch(indices) for indices in batches], rate=0.1
    )
    work = EvaluationWork(final=True, personal_steps=53)
    ordered = Order(4, 0.1, wire.pack(start), work)
    reply, personal = evaluate(ordered, work, client, ClientState())
    assert personal is not None
    assert personal.masks == masks
    assert_close({name: personal.dense(name) for name in personal.values}, expected.values)
    before, after = unpack_scores(reply.scores, 2)
    plain, none = evaluate(ordered, EvaluationWork(), client, ClientState())
    assert (unpack_scores(plain.scores, 1), none) == ([before], None)
    client.backend.load(personal)
    right, loss = client.backend.evaluate(client.split.held_out.batch(np.arange(18)))  # type: ignore[union-attr]
    assert after.right == right > before.right
    assert after.loss == pytest.approx(loss, rel=1e-5)


def test_two_scores_are_wanted_where_a_personal_model_is_and_may_come_with_the_final_model() -> None:
    both = pack_scores(Score(1, 5, 0.5), Score(4, 5, 0.5))
    replies = [a_reply(0, GOOD), a_reply(1, both)]
    asked = {c: order(EvaluationWork(final=True, personal_steps=2)) for c in (0, 1)}
    got = collect_scores(asked, replies)
    assert (got.scores, got.personal) == ({1: Score(1, 5, 0.5)}, {1: Score(4, 5, 0.5)})
    assert got.refused == {0: "scores of 24 bytes, must be 48"}
    got = collect_scores({c: order(EvaluationWork(final=True)) for c in (0, 1)}, replies)
    assert got.scores.keys() == {0, 1}
    assert got.personal == {1: Score(4, 5, 0.5)}
    got = collect_scores({c: order(EvaluationWork()) for c in (0, 1)}, replies)
    assert got.refused == {1: "scores of 48 bytes, must be 24"}


def test_personal_steps_that_were_asked_for_are_charged_and_a_second_forward_pass() -> None:
    config = small_config(evaluation={"share": 0.3, "personal_steps": 7}, run={"rounds": 4, "eval_batch": 7})
    setup = small_setup(small_federation(), config, NETWORK)
    state = ServerState(START, 4, Memory(), {}, {MASKS.digest: MASKS})
    orders = begin_evaluation(setup, state, [3])
    assert orders[3].work == EvaluationWork(final=True, personal_steps=7)
    assert orders[3].learning_rate == 0.1
    both = pack_scores(Score(1, 24, 0.5), Score(4, 24, 0.5))
    _, found = finish_evaluation(setup, state, orders, [a_reply(3, both, held_out=24)])
    step = setup.devices[3].step_seconds(MASKS.counts)
    assert found.charge.seconds.compute == pytest.approx((7 + 2 * 24 / 20 / 3) * step)
    assert found.charge.bytes_up == 48


def test_a_client_without_the_masks_of_a_model_asks_for_the_whole_state() -> None:
    with pytest.raises(wire.WireError) as error:
        follow(order(EvaluationWork(), MASKS), small_client(CONFIG, NETWORK), ClientState())
    assert error.value.reason == "digest"


def test_means_are_by_samples_by_client_and_of_the_worst_tenth() -> None:
    # eleven clients: the worst tenth is two of them
    scores = {0: Score(1, 4, 2.0), 1: Score(1, 2, 1.0), **{n: Score(3, 3, 0.0) for n in range(2, 11)}}
    found = Evaluation(scores, {}, {}, NO_CHARGE)
    assert (found.samples, found.accuracy) == (33, 29 / 33)
    assert found.loss == pytest.approx((4 * 2.0 + 2 * 1.0) / 33)
    assert found.client_accuracy == pytest.approx((0.25 + 0.5 + 9) / 11)
    assert found.worst_tenth == pytest.approx((0.25 + 0.5) / 2)
    alone = Evaluation({5: Score(1, 4, 2.0)}, {}, {}, NO_CHARGE)
    assert alone.accuracy == alone.client_accuracy == alone.worst_tenth == 0.25


def test_scores_are_three_numbers_of_eight_bytes() -> None:
    packed = pack_scores(Score(3, 5, 0.5))
    assert packed == (3).to_bytes(8, "little") + (5).to_bytes(8, "little") + struct.pack("<d", 0.5)
    assert unpack_scores(packed, 1) == [Score(3, 5, 0.5)]


def a_reply(client: int, scores: bytes, **changes) -> Reply:
    return replace(Reply(client, 4, 40, 0.5, b"", held_out=5, scores=scores), **changes)


GOOD = pack_scores(Score(3, 5, 0.5))
WRONG = {
    "scores of 0 bytes, must be 24": a_reply(1, b""),
    "scores of 48 bytes, must be 24": a_reply(1, GOOD + GOOD),
    "loss on held-out samples turned nan": a_reply(1, pack_scores(Score(3, 5, float("nan")))),
    "loss on held-out samples turned inf": a_reply(1, pack_scores(Score(3, 5, float("inf")))),
    "6 of 5 held-out samples are right": a_reply(1, pack_scores(Score(6, 5, 0.5))),
    "0 of 0 held-out samples are right": a_reply(1, pack_scores(Score(0, 0, 0.5))),
    "6 held-out samples, but 5 were announced": a_reply(1, pack_scores(Score(3, 6, 0.5))),
    "scores for round 3, which this client was not asked for": a_reply(1, GOOD, round=3),
    "an update, where scores were asked for": a_reply(1, GOOD, model=b"model"),
}


@pytest.mark.parametrize("words", WRONG)
def test_scores_that_cannot_be_true_are_left_out_by_their_reason(words: str) -> None:
    orders = {client: order(EvaluationWork()) for client in range(3)}
    got = collect_scores(orders, [WRONG[words], a_reply(0, GOOD)])
    assert got.scores == {0: Score(3, 5, 0.5)}
    assert got.refused.keys() == {1, 2}
    assert words in got.refused[1]
    assert got.refused[2] == "no reply"
    assert got.sent == {0: (24,), 1: (len(WRONG[words].scores),)}


def test_an_evaluation_without_a_good_score_has_failed() -> None:
    with pytest.raises(RoundFailed, match="evaluation after round 4: no client's scores were good; client 1"):
        collect_scores({1: order(EvaluationWork())}, [a_reply(1, b"")])


def test_a_negative_count_is_a_number_too_large_to_be_true() -> None:
    with pytest.raises(BadUpdate, match="are right, which cannot be"):
        unpack_scores(struct.pack("<qqd", -1, 5, 0.5), 1)


def test_an_evaluation_is_charged_a_third_of_a_step_for_a_batch_and_every_byte() -> None:
    setup = small_setup(small_federation(), CONFIG, NETWORK)
    # client 1 holds the masks already, client 3 does not
    state = ServerState(START, 4, Memory(), {1: MASKS.digest}, {MASKS.digest: MASKS})
    orders = begin_evaluation(setup, state, [1, 3])
    values_only, whole = len(wire.pack(START, known=MASKS)), len(wire.pack(START))
    assert {client: len(order.model) for client, order in orders.items()} == {1: values_only, 3: whole}
    # 67 and 81 samples, of which 20 and 24 are held out
    assert [setup.num_samples[client] for client in (1, 3)] == [47, 57]
    replies = [
        a_reply(1, pack_scores(Score(10, 20, 0.5)), held_out=20),
        a_reply(3, pack_scores(Score(24, 24, 0.5)), held_out=24),
    ]
    after, found = finish_evaluation(setup, state, orders, replies)
    device, live = setup.devices[3], MASKS.counts
    assert found.charge.bytes_up == 2 * 24
    assert found.charge.bytes_down == values_only + whole
    spent = found.charge.seconds
    # mini-batches of 20: client 3 computes 24/20 of a forward pass
    assert spent.compute == pytest.approx(24 / 20 / 3 * device.step_seconds(live))
    assert spent.download == pytest.approx(device.link.download_seconds(whole))
    assert spent.upload == pytest.approx(device.link.upload_seconds(24))
    assert spent.overhead == device.overhead
    a_step = sum(step_flops(NETWORK.positions, live, NETWORK.full_masks.sizes, 20, False).values())
    assert found.charge.flops == pytest.approx(a_step / 3 * (20 / 20 + 24 / 20) / 2)
    assert after.totals == state.totals.plus(found.charge)
    assert replace(after, totals=state.totals) == state
    assert found.accuracy == 34 / 44
    assert same_bits(state.sparse.values, START.values)
