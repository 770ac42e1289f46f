"""Orders and replies cross the line unchanged; what is not one is refused by name."""

from dataclasses import replace

import pytest

from prunefl.engines.flower.letters import Letter, LetterError, seal, unseal
from prunefl.engines.flower.orders import order_letter, reply_letter, to_order, to_reply
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


def posted(letter: Letter) -> Letter:
    return unseal(seal(letter))


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_comes_back_as_it_was(order):
    assert to_order(posted(order_letter(order, "run"))) == order


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_comes_back_as_it_was(reply):
    assert to_reply(posted(reply_letter(reply)), 1) == reply


def test_a_reply_counts_for_the_client_whose_key_brought_it():
    assert to_reply(reply_letter(replace(REPLIES[0], client=0)), 2).client == 2


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
    letter = reply_letter(REPLIES[0])
    letter.values[name] = value
    with pytest.raises(LetterError, match=name):
        to_reply(posted(letter), 1)


@pytest.mark.parametrize("segments", ["x", [1], [{"live": 3}], [{"live": {"a": "b"}}]])
def test_segments_that_are_none_are_refused(segments):
    letter = reply_letter(REPLIES[1])
    letter.values["segments"] = segments
    with pytest.raises(LetterError):
        to_reply(letter, 1)


def test_an_ask_of_another_version_is_refused_with_the_reason():
    letter = order_letter(ORDERS[0], "run")
    letter.values["ask"]["levitate"] = True
    with pytest.raises(LetterError, match="same version"):
        to_order(letter)


def test_a_letter_of_another_kind_is_refused():
    with pytest.raises(LetterError, match="must be 'reply'"):
        to_reply(order_letter(ORDERS[0], "run"), 1)
