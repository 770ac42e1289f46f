"""What the server refuses, and what it makes of the rest."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.state import SparseState
from prunefl.methods import Method, Work, build_method
from prunefl.methods.feddst import Swap
from prunefl.methods.initial import STRETCH
from prunefl.methods.prunefl import Collect, PruneFirst
from prunefl.rounds.collected import Collected
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState, finish_round
from prunefl.rounds.updates import RoundFailed, collect_updates
from tasks import small_config, small_federation, small_network, small_setup

NETWORK = small_network()
TEMPLATE = NETWORK.template
HALF = {
    n: np.arange(size).reshape(TEMPLATE.shape_of[n]) % 2 == 0 for n, size in NETWORK.full_masks.sizes.items()
}
MASKS = Masks(HALF)
OTHER = Masks({name: ~mask for name, mask in MASKS.items()})
START = NETWORK.first.remask(MASKS)
FIRST = next(iter(MASKS))
ORDERS = {client: Order(5, 0.1, b"", Work()) for client in range(4)}


def scaled(state: SparseState, factor: float) -> SparseState:
    values = {name: value * np.float32(factor) for name, value in state.values.items()}
    return SparseState(values, state.masks)


def reply(client: int, factor: float = 1.0, **changes: Any) -> Reply:
    model = wire.pack(scaled(START, factor), known=MASKS)
    return replace(Reply(client, 5, 10 * (client + 1), 0.5, model), **changes)


def with_work(work: Work, clients: int = 4) -> dict[int, Order]:
    return {client: Order(5, 0.1, b"", work) for client in range(clients)}


def a_method(name: str = "prunefl", **sections: Any) -> Method:
    return build_method(small_config(run={"method": name}, **sections))


def gather(
    replies: Iterable[Reply], orders: Mapping[int, Order] = ORDERS, method: Method | None = None
) -> Collected:
    return collect_updates(method or a_method(), TEMPLATE, START, orders, replies)


def combine(got: Collected, method: Method | None = None, work: Work | None = None) -> SparseState:
    return (method or a_method()).combine(work or Work(), START, got.updates, Memory()).state


def clients_of(got: Collected) -> list[int]:
    return [update.client for update in got.updates]


def test_the_mean_is_weighted_by_samples_and_independent_of_arrival() -> None:
    replies = [reply(client, factor=client + 1.0) for client in range(4)]
    one, other = combine(gather(replies)), combine(gather(replies[::-1]))
    expected = sum((n + 1) * (n + 1) * 10 for n in range(4)) / 100
    for name, value in START.values.items():
        np.testing.assert_allclose(one.values[name], value * expected, rtol=1e-6)
        assert np.array_equal(one.values[name], other.values[name])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (reply(0, round=4), "round 4"),
        (reply(0, loss=float("nan")), "nan"),
        (reply(0, model=b"garbage"), "foreign"),
        (reply(0, model=reply(0).model[:-3]), "truncated"),
        (reply(0, num_samples=0), "num_samples=0"),
        (reply(0, statistic=b"unasked"), "statistic"),
        (reply(0, model=wire.pack(NETWORK.first.remask(OTHER))), "other masks"),
        (reply(9), "not asked"),
        (reply(0, numbers={"steps": [10.0], "passes": [1.0]}), "numbers passes, steps, which were not asked"),
    ],
)
def test_a_bad_reply_costs_itself_and_nothing_else(bad: Reply, reason: str) -> None:
    got = gather([bad, reply(1), reply(2), reply(3)])
    assert reason in got.refused[bad.client]
    assert clients_of(got) == [1, 2, 3]
    # its bytes travelled all the same
    assert got.sent[bad.client][0] == len(bad.model)


@pytest.mark.parametrize(("report", "lowest"), [("importance", 0.0), ("gradient", -1.0)])
def test_a_statistic_is_the_mean_by_samples(report: str, lowest: float) -> None:
    orders = with_work(Collect(report=report))
    shapes = TEMPLATE.parameters
    told = [{n: np.full(s, lowest + client, np.float32) for n, s in shapes.items()} for client in range(4)]
    replies = [reply(client, statistic=wire.pack_importance(told[client])) for client in range(4)]
    got = gather(replies, orders)
    assert got.statistic is not None
    assert list(got.statistic) == list(shapes)
    for name, mean in got.statistic.items():
        np.testing.assert_allclose(mean, np.full(shapes[name], lowest + 2.0), rtol=1e-6)


@pytest.mark.parametrize("bad", [b"garbage", b"", "negative"])
def test_a_bad_statistic_costs_itself_and_nothing_else(bad: bytes | str) -> None:
    ones = {name: np.ones(shape, np.float32) for name, shape in TEMPLATE.parameters.items()}
    good = wire.pack_importance(ones)
    if bad == "negative":
        bad = wire.pack_importance({name: -value for name, value in ones.items()})
    replies = [reply(client, statistic=good if client else bad) for client in range(4)]
    got = gather(replies, with_work(Collect(report="importance")))
    assert list(got.refused) == [0]
    assert clients_of(got) == [1, 2, 3]


def test_an_account_of_initial_pruning_is_checked_before_it_is_believed() -> None:
    account = {name: [1.0] for name in STRETCH}
    account |= {f"live.{name}": [float(size)] for name, size in MASKS.sizes.items()}
    orders = with_work(PruneFirst(own_masks=True), 1)
    assert gather([reply(0, numbers=account)], orders).updates[0].numbers == account
    with pytest.raises(RoundFailed, match="a stretch") as failed:
        gather([reply(0, numbers={**account, f"live.{FIRST}": [-1.0]})], orders)
    assert list(failed.value.refused) == [0]


@pytest.mark.parametrize("poison", [float("inf"), float("nan")])
def test_weights_that_are_not_numbers_never_reach_the_model(poison: float) -> None:
    values = {name: value.copy() for name, value in START.values.items()}
    values[FIRST][0] = poison
    bad = reply(0, model=wire.pack(SparseState(values, MASKS), known=MASKS))
    got = gather([bad, reply(1), reply(2), reply(3)])
    assert list(got.refused) == [0]
    assert all(np.isfinite(value).all() for value in combine(got).values.values())


def test_without_a_quorum_the_round_fails_and_says_why() -> None:
    with pytest.raises(
        RoundFailed, match=r"round 5: 1 of 4 updates were good, 2 are needed .*client 1: no reply"
    ) as failed:
        gather([reply(0)])
    # who did not answer is not to blame
    assert failed.value.refused == {}


ENDLESS = wire.pack(scaled(START, float("inf")), known=MASKS)
DIVERGED = r"^training diverged in round 5, rate 0.1 \(lower training.learning_rate\): 0 of 4"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"loss": float("nan")}, DIVERGED),
        ({"model": ENDLESS}, DIVERGED),
        ({"model": b"rubbish"}, r"^round 5: 0 of 4"),
    ],
)
def test_where_all_that_came_is_not_finite_training_has_diverged(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(RoundFailed, match=said):
        gather([reply(1, **bad), reply(2, **bad), reply(3, loss=float("inf"))])


def test_clip_norm_bounds_what_one_client_can_do() -> None:
    method = a_method(server={"clip_norm": 0.001})
    got = gather([reply(0), reply(1), reply(2), reply(3, factor=1e6)], method=method)
    after = combine(got, method)
    change = sum(float(np.square(after.values[n] - START.values[n]).sum()) for n in START.values) ** 0.5
    assert 0.0009 * 0.4 <= change <= 0.001 * 0.4 * 1.01


def test_clients_with_masks_of_their_own_are_averaged_over_holders() -> None:
    method, work = a_method("feddst", pruning={"density": 0.5}), Swap(own_masks=True, share=0.5)
    other = reply(1, model=wire.pack(NETWORK.first.remask(OTHER)))
    after = combine(gather([reply(0), other], with_work(work, 2), method), method, work)
    assert after.masks.density == 1
    for name in MASKS:
        np.testing.assert_allclose(after.dense(name), NETWORK.first.dense(name), rtol=1e-6)


@pytest.mark.parametrize("bug", [ZeroDivisionError, ValueError, KeyError])
@pytest.mark.parametrize("answer", ["check", "cost", "combine", "next"])
def test_a_bug_in_a_method_is_not_blamed_on_a_client(answer: str, bug: type[Exception]) -> None:
    def fail(self: Method, *given: Any) -> Any:
        raise bug("a bug")

    setup = small_setup(small_federation(), small_config(), NETWORK)
    setup = replace(setup, method=type("Buggy", (Method,), {answer: fail})(small_config()))
    state = ServerState(START, 4, Memory())
    with pytest.raises(bug, match="a bug") as caught:
        finish_round(setup, state, ORDERS, [reply(client) for client in range(4)])
    assert type(caught.value) is bug
