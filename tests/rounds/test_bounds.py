"""What one client can do to a round, against what it would have done alone; and that the honest are not touched."""

from typing import Any

import numpy as np
import pytest

from prunefl import wire
from prunefl.core.memory import Memory
from prunefl.core.network import Template
from prunefl.core.outliers import measure_change
from prunefl.core.state import SparseState
from prunefl.methods import Method, build_method
from prunefl.methods.prunefl import Collect
from prunefl.rounds.collected import Collected
from prunefl.rounds.messages import EvaluationWork, Order, Reply
from prunefl.rounds.scores import Score, collect_scores, pack_scores
from prunefl.rounds.updates import collect_updates
from tasks import random_masks, small_config, small_network

NETWORK = small_network()
TEMPLATE: Template = NETWORK.template
MASKS = random_masks(NETWORK, 0.5)
START = NETWORK.first.remask(MASKS)
OFF = {
    "server": {"max_change": 0.0, "max_opposition": 0.0, "max_statistic": 0.0},
    "training": {"weight_cap": 0.0},
}


def moved(step: float, seed: int) -> SparseState:
    """Return the start, moved by this norm in some direction."""
    rng = np.random.default_rng(seed)
    change = {name: rng.standard_normal(value.shape) for name, value in START.values.items()}
    norm = sum(float(np.square(part).sum()) for part in change.values()) ** 0.5
    values = {
        name: (START.values[name] + step / norm * part).astype(np.float32) for name, part in change.items()
    }
    return SparseState(values, MASKS)


def filled(value: float) -> SparseState:
    return SparseState({name: np.full_like(old, value) for name, old in START.values.items()}, MASKS)


def importance(scale: float, seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)
    shapes = TEMPLATE.parameters.items()
    return wire.pack_importance({n: (scale * rng.random(s)).astype(np.float32) for n, s in shapes})


def method_of(**sections: Any) -> Method:
    return build_method(small_config(**sections))


def gather(
    states: list[SparseState],
    method: Method | None = None,
    statistics: list[bytes] | None = None,
    samples: list[int] | None = None,
    losses: list[float] | None = None,
    usual: float = 0.0,
) -> Collected:
    count = len(states)
    work = Collect(report="importance") if statistics else Collect()
    told = zip(
        states, statistics or [b""] * count, samples or [10] * count, losses or [0.5] * count, strict=True
    )
    replies = [
        Reply(n, 5, number, loss, wire.pack(state, known=MASKS), statistic)
        for n, (state, statistic, number, loss) in enumerate(told)
    ]
    orders = {n: Order(5, 0.1, b"", work) for n in range(count)}
    return collect_updates(method or method_of(), TEMPLATE, START, orders, replies, usual)


def combined(got: Collected) -> SparseState:
    return method_of().combine(Collect(), START, got.updates, Memory()).state


def bits(state: SparseState) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in state.values.items()}


def test_an_honest_cohort_has_the_same_bits_as_without_bounds():
    states = [moved(0.5 + 0.4 * n, n) for n in range(5)]
    statistics = [importance(1.0 + n, n) for n in range(5)]
    samples = [10, 12, 25, 9, 11]
    given = {"statistics": statistics, "samples": samples, "losses": [0.1, 0.5, 0.9, 0.3, 1.5]}
    one, other = gather(states, **given), gather(states, method_of(**OFF), **given)
    assert one.bounded == {}
    assert bits(combined(one)) == bits(combined(other))
    assert one.loss == other.loss
    assert one.statistic is not None
    assert other.statistic is not None
    assert all(one.statistic[n].tobytes() == other.statistic[n].tobytes() for n in one.statistic)


@pytest.mark.parametrize("lie", [moved(900.0, 9), moved(50.0, 9), moved(6.0, 9)])
def test_a_change_that_stands_out_counts_as_a_usual_one(lie: SparseState):
    honest = [moved(1.0, n) for n in range(4)]
    got = gather([*honest, lie])
    assert list(got.bounded) == [4]
    assert "times the usual norm: scaled down" in got.bounded[4]
    assert measure_change(got.updates[4].state, START) == pytest.approx(1.0, rel=1e-3)
    # a fifth of the weight at most a fifth of the usual way from what the others make
    alone = combined(gather(honest))
    assert measure_change(combined(got), alone) < 0.5
    assert all(np.isfinite(value).all() for value in combined(got).values.values())


@pytest.mark.parametrize("lie", [filled(3e38), filled(-3e38), filled(1e6), moved(1100.0, 9)])
def test_a_change_beyond_all_measure_is_left_out_whole(lie: SparseState):
    honest = [moved(1.0, n) for n in range(4)]
    told = [importance(1.0, n) for n in range(5)]
    got, alone = gather([*honest, lie], statistics=told), gather(honest, statistics=told[:4])
    assert list(got.refused) == [4]
    assert "times the usual norm" in got.refused[4]
    assert got.bounded == {}
    assert [update.client for update in got.updates] == [0, 1, 2, 3]
    assert bits(combined(got)) == bits(combined(alone))
    assert got.statistic is not None
    assert alone.statistic is not None
    assert all(got.statistic[n].tobytes() == alone.statistic[n].tobytes() for n in alone.statistic)
    assert (got.usual_change, got.loss) == (alone.usual_change, alone.loss)


def test_what_is_beyond_all_measure_is_left_out_where_nobody_else_moved():
    got = gather([START, START, START, filled(3e38)])
    assert list(got.refused) == [3]
    assert got.refused[3].startswith("change of norm")


def test_without_the_bound_it_is_named_and_kept():
    got = gather([*[moved(1.0, n) for n in range(4)], moved(50.0, 9)], method_of(**OFF))
    assert got.bounded == {4: "change 50 times the usual norm"}
    assert measure_change(got.updates[4].state, START) == pytest.approx(50.0, rel=1e-3)


@pytest.mark.parametrize("count", [1, 2])
def test_a_cohort_of_one_or_two_is_measured_by_the_round_before(count: int):
    states = [moved(1.0, n) for n in range(count - 1)]
    got = gather([*states, moved(100.0, 9)], usual=1.0)
    assert list(got.bounded) == [count - 1]
    assert got.usual_change == pytest.approx(1.0, rel=1e-3)
    assert gather([*states, moved(4.0, 9)], usual=1.0).bounded == {}
    # in the first round, by the model itself
    assert list(gather([*states, filled(3e38)]).bounded) == [count - 1]


def test_samples_count_for_at_most_three_times_the_median():
    got = gather([moved(1.0, n) for n in range(4)], samples=[10, 20, 20, 10**12])
    assert [update.share for update in got.updates] == pytest.approx([10 / 110, 20 / 110, 20 / 110, 60 / 110])


def test_importance_that_stands_out_is_left_out_and_the_update_is_not():
    statistics = [importance(1.0, n) for n in range(4)]
    states = [moved(1.0, n) for n in range(5)]
    got = gather(states, statistics=[*statistics, importance(1e30)])
    honest = gather(states[:4], statistics=statistics)
    assert list(got.bounded) == [4]
    assert "importance" in got.bounded[4]
    assert len(got.updates) == 5
    assert got.statistic is not None
    assert honest.statistic is not None
    for name, mean in honest.statistic.items():
        np.testing.assert_allclose(got.statistic[name], mean, rtol=1e-5)


@pytest.mark.parametrize("aggregate", ["median", "trimmed_mean"])
def test_importance_is_robust_where_weights_are(aggregate: str):
    """A lie within the bound of its sum: all of it on what others find useless."""
    statistics = [importance(1.0, n) for n in range(4)]
    lie = wire.pack_importance({n: np.full(s, 4.0, np.float32) for n, s in TEMPLATE.parameters.items()})
    method = method_of(server={"aggregate": aggregate, "trim": 0.2})
    got = gather([moved(1.0, n) for n in range(5)], method, [*statistics, lie])
    assert got.statistic is not None
    assert max(float(value.max()) for value in got.statistic.values()) <= 1.0


def test_a_loss_is_bounded_by_the_cohorts():
    got = gather([moved(1.0, n) for n in range(4)], losses=[0.5, 0.5, 0.5, 1e300])
    assert got.loss == pytest.approx((3 * 0.5 + 20 * 0.5) / 4)


def test_scores_of_very_many_samples_count_for_less():
    orders = {n: Order(5, 0.1, b"", EvaluationWork()) for n in range(4)}
    told = [Score(5, 10, 0.5), Score(6, 10, 0.5), Score(7, 10, 0.5), Score(0, 10**12, 1e300)]
    replies = [
        Reply(n, 5, 10, 0.5, b"", held_out=10**12, scores=pack_scores(score)) for n, score in enumerate(told)
    ]
    found = collect_scores(orders, replies, weight_cap=3.0).scores
    assert {n: found[n] for n in range(3)} == dict(enumerate(told[:3]))
    assert found[3] == Score(0, 30, 10.0)
