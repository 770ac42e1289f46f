"""Orders and replies cross the line unchanged; what is not one is refused by name."""

from dataclasses import replace

import pytest

from prunefl.config import Config
from prunefl.engines.flower.codec import MOST_NUMBERS, decode_order, decode_reply, encode_order, encode_reply
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, seal, unseal
from prunefl.methods import build_method
from prunefl.methods.prunefl import Collect, PruneFirst
from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork

METHOD = build_method(Config())
ORDERS = [
    Order(3, 0.1, b"model", Collect(collect=True, report="importance")),
    Order(0, 0.25, b"", PruneFirst(own_masks=True, time_model='{"constant": 1.5}')),
    Order(9, 0.1, b"model", EvaluationWork(final=True, personal_steps=5)),
    Order(3, 0.1, b"model", Collect(), 1_700_000_000_000_000, b"terms"),
    Order(3, 0.0, b"", SecureWork(step="unmask", purpose="round 3"), 7, b"verdict"),
]
REPLIES = [
    Reply(1, 3, 60, 0.7, b"model", b"statistic", {"before": 0.9, "after": 0.8}, 1.5),
    Reply(1, 0, 60, 0.7, b"m", numbers={"passes": [5, 7], "accuracy": [0.5, 1.1], "live.0.weight": [7, 4]}),
    Reply(1, 9, 60, 0.7, b"", scores=b"scores"),
    Reply(1, 3, 60, 0.0, b"", secure=b"under masks"),
]


def posted(envelope: Envelope) -> Envelope:
    return unseal(seal(envelope))


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_comes_back_as_it_was(order):
    assert decode_order(posted(encode_order(order, "run")), METHOD) == order


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_comes_back_as_it_was(reply):
    assert decode_reply(posted(encode_reply(reply)), 1) == reply


def test_a_reply_counts_for_the_client_whose_key_brought_it():
    assert decode_reply(encode_reply(replace(REPLIES[0], client=0)), 2).client == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", float("nan")),
        ("loss", float("inf")),
        ("loss", "0"),
        ("round", 1.5),
        ("num_samples", True),
        ("num_samples", 10**400),
    ],
)
def test_numbers_that_are_none_are_refused_by_name(name, value):
    envelope = encode_reply(REPLIES[0])
    envelope.values[name] = value
    with pytest.raises(EnvelopeError, match=name):
        decode_reply(posted(envelope), 1)


@pytest.mark.parametrize("name", ["round", "learning_rate"])
def test_an_order_without_its_numbers_is_refused_by_name(name):
    envelope = encode_order(ORDERS[0], "run")
    del envelope.values[name]
    with pytest.raises(EnvelopeError, match=name):
        decode_order(envelope, METHOD)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ("x", "must be a table"),
        ([1], "must be a table"),
        (None, "must be a table"),
        ({"live": "b"}, "live='b', must be a number"),
        ({"live": {"a": 1}}, "live={'a': 1}, must be a number"),
        ({"live": [1, "b"]}, "live='b', must be a number"),
        ({"live": [[1]]}, "must be a number"),
        ({"live": [float("nan")]}, "live=nan, must be a number"),
        ({"live": [0] * (MOST_NUMBERS + 1)}, "numbers, must be <="),
        ({str(n): 0 for n in range(MOST_NUMBERS + 1)}, "must be a table"),
    ],
)
def test_what_a_client_half_reports_is_numbers_and_lists_of_them_or_refused(numbers, words):
    envelope = encode_reply(REPLIES[1])
    envelope.values["numbers"] = numbers
    with pytest.raises(EnvelopeError, match=words):
        decode_reply(posted(envelope), 1)


def test_work_of_another_version_is_refused_with_the_reason():
    envelope = encode_order(ORDERS[0], "run")
    envelope.values["work"]["levitate"] = True
    with pytest.raises(EnvelopeError, match="same version"):
        decode_order(envelope, METHOD)


@pytest.mark.parametrize("work", [None, "Collect", {}, {"kind": "Levitate"}, {"kind": ["Collect"]}])
def test_work_that_the_method_does_not_know_is_refused(work):
    envelope = encode_order(ORDERS[0], "run")
    envelope.values["work"] = work
    with pytest.raises(EnvelopeError, match="work"):
        decode_order(envelope, METHOD)


def test_an_envelope_of_another_kind_is_refused():
    with pytest.raises(EnvelopeError, match="must be 'reply'"):
        decode_reply(encode_order(ORDERS[0], "run"), 1)
    with pytest.raises(EnvelopeError, match="must be 'order'"):
        decode_order(encode_reply(REPLIES[0]), METHOD)
