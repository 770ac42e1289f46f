"""What the server refuses, and what it makes of the rest."""

from dataclasses import replace

import pytest
import torch

from prunefl import wire
from prunefl.core.masks import full_masks, prunable_names
from prunefl.local import torch_backend as sparse
from prunefl.rounds.messages import Ask, InitialPlan, Order, Reply, Segment
from prunefl.rounds.updates import RoundFailed, collect
from tasks import small_config, small_model

MODEL = small_model()
NAMES = prunable_names(MODEL)
TEMPLATE = wire.Template.of(MODEL, NAMES)
MASKS = {n: torch.arange(m.numel()).view(m.shape) % 2 == 0 for n, m in full_masks(MODEL, NAMES).items()}
START = wire.unpack(wire.pack(sparse.state_of(MODEL), MASKS), TEMPLATE)[0]
ORDERS = {client: Order(5, 0.1, b"") for client in range(4)}


def reply(client, factor=1.0, **changes):
    values = {name: value * factor for name, value in START.items()}
    made = Reply(client, 5, 10 * (client + 1), 0.5, wire.pack(values, MASKS, known=MASKS))
    return replace(made, **changes)


def gather(replies, orders=ORDERS, **sections):
    return collect(small_config(**sections), TEMPLATE, START, MASKS, orders, replies)


def test_the_mean_is_weighted_by_samples_and_independent_of_arrival():
    replies = [reply(client, factor=client + 1.0) for client in range(4)]
    one, other = gather(replies), gather(replies[::-1])
    expected = sum((n + 1) * (n + 1) * 10 for n in range(4)) / 100
    for name, value in START.items():
        torch.testing.assert_close(one.values[name], value * expected)
        assert torch.equal(one.values[name], other.values[name])


SEGMENT = Segment(1, 10, 10, {name: mask.numel() for name, mask in MASKS.items()}, 0.5, 1.0)
OTHER = {name: ~mask for name, mask in MASKS.items()}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (reply(0, round=4), "round 4"),
        (reply(0, loss=float("nan")), "nan"),
        (reply(0, model=b"garbage"), ""),
        (reply(0, model=reply(0).model[:-3]), ""),
        (reply(0, num_samples=0), "num_samples=0"),
        (reply(0, statistic=b"unasked"), "statistic"),
        (reply(0, model=wire.pack(sparse.state_of(MODEL), OTHER)), "other masks"),
        (reply(9), "not asked"),
        (reply(0, segments=(SEGMENT,)), "1 segments of initial pruning"),
    ],
)
def test_a_bad_reply_costs_itself_and_nothing_else(bad, reason):
    got = gather([bad, reply(1), reply(2), reply(3)])
    assert reason in got.refused[bad.client]
    assert [good.client for good in got.replies] == [1, 2, 3]


def test_a_bad_statistic_costs_itself_and_nothing_else():
    importance = wire.pack_importance({name: torch.ones(mask.shape) for name, mask in MASKS.items()})
    orders = {client: replace(order, ask=Ask(report="importance")) for client, order in ORDERS.items()}
    replies = [reply(client, statistic=importance if client else b"garbage") for client in range(4)]
    got = gather(replies, orders)
    assert list(got.refused) == [0]
    assert [good.client for good in got.replies] == [1, 2, 3]


@pytest.mark.parametrize(
    "changes",
    [
        {"live": {}},
        {"live": SEGMENT.live | {NAMES[0]: -1}},
        {"live": SEGMENT.live | {NAMES[0]: 10**9}},
        {"live": SEGMENT.live | {"other": 1}},
        {"steps": 10**12},
        {"full_steps": 11},
        {"passes": -1},
    ],
)
def test_an_account_of_initial_pruning_that_cannot_be_true_is_refused(changes):
    orders = {0: Order(5, 0.1, b"", initial=InitialPlan(10, 1, 1.0, 0.1, 1, 5))}
    assert gather([reply(0, segments=(SEGMENT,))], orders).replies[0].segments == (SEGMENT,)
    with pytest.raises(RoundFailed, match="a segment") as failed:
        gather([reply(0, segments=(SEGMENT, replace(SEGMENT, **changes)))], orders)
    assert list(failed.value.refused) == [0]


@pytest.mark.parametrize("poison", [float("inf"), float("nan")])
def test_weights_that_are_not_numbers_never_reach_the_model(poison):
    values = {name: value.clone() for name, value in START.items()}
    values[NAMES[0]][0] = poison
    got = gather([reply(0, model=wire.pack(values, MASKS, known=MASKS)), reply(1), reply(2), reply(3)])
    assert list(got.refused) == [0]
    assert all(value.isfinite().all() for value in got.values.values())


def test_without_a_quorum_the_round_fails_and_says_why():
    with pytest.raises(
        RoundFailed, match=r"round 5: 1 of 4 updates were good, 2 are needed .*client 1: no reply"
    ):
        gather([reply(0)])


def test_clip_norm_bounds_what_one_client_can_do():
    got = gather([reply(0), reply(1), reply(2), reply(3, factor=1e6)], server={"clip_norm": 0.001})
    change = sum(float((got.values[n] - START[n]).square().sum()) for n in START) ** 0.5
    assert change <= 0.001 * 0.4 * 1.01


def test_clients_with_masks_of_their_own_are_averaged_over_holders():
    orders = {0: Order(5, 0.1, b"", Ask(swap=0.5)), 1: Order(5, 0.1, b"", Ask(swap=0.5))}
    dense = sparse.state_of(MODEL)
    got = gather([reply(0), reply(1, model=wire.pack(dense, OTHER))], orders)
    assert all(mask.all() for mask in got.masks.values())
    for name in NAMES:
        torch.testing.assert_close(got.values[name], dense[name].flatten())
