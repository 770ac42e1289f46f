"""Orders and replies cross the line unchanged; what is not one is refused by name."""

from dataclasses import replace

import pytest

from prunefl.engines.flower.codec import decode_order, decode_reply, encode_order, encode_reply
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, seal, unseal
from prunefl.rounds.messages import Ask, InitialPlan, Order, Reply, Segment

PLAN = InitialPlan(200, 50, 1.5, 0.1, 5, 1000)
ORDERS = [
    Order(3, 0.1, b"model", Ask(collect=True, report="importance")),
    Order(0, 0.25, b"", initial=PLAN, time_model='{"constant": 1.5}'),
]
REPLIES = [
    Reply(1, 3, 60, 0.7, b"model", b"statistic", 0.9, 0.8, 1.5),
    Reply(1, 0, 60, 0.7, b"m", segments=(Segment(5, 50, 10, {"0.weight": 7}, 0.5, 1.1),)),
]


def posted(envelope: Envelope) -> Envelope:
    return unseal(seal(envelope))


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_comes_back_as_it_was(order):
    assert decode_order(posted(encode_order(order, "run"))) == order


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


@pytest.mark.parametrize("segments", ["x", [1], [{"live": 3}], [{"live": {"a": "b"}}]])
def test_segments_that_are_none_are_refused(segments):
    envelope = encode_reply(REPLIES[1])
    envelope.values["segments"] = segments
    with pytest.raises(EnvelopeError):
        decode_reply(envelope, 1)


def test_an_ask_of_another_version_is_refused_with_the_reason():
    envelope = encode_order(ORDERS[0], "run")
    envelope.values["ask"]["levitate"] = True
    with pytest.raises(EnvelopeError, match="same version"):
        decode_order(envelope)


def test_an_envelope_of_another_kind_is_refused():
    with pytest.raises(EnvelopeError, match="must be 'reply'"):
        decode_reply(encode_order(ORDERS[0], "run"), 1)
