"""w²z and w²z/t against exact fractions, and t by difference for every kind of T."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core.masks import Masks
from prunefl.core.price import account_for, as_note, loss_per_second, seconds_per_weight, squared_loss
from prunefl.core.state import SparseState
from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime
from random_states import full


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-9, 9), st.integers(0, 9)), max_size=8), st.integers(0, 3)
)
def test_a_live_weight_is_priced_by_its_square_times_importance_per_second(
    weights: list[tuple[bool, int, int]], seconds: int
) -> None:
    mask = np.array([live for live, _, _ in weights], np.bool_)
    dense = {"a": np.array([value for _, value, _ in weights], np.float32)}
    importance = {"a": np.array([z for _, _, z in weights], np.float32)}
    state = SparseState.from_dense(dense, Masks({"a": mask}))
    lost = [Fraction(value) ** 2 * z for live, value, z in weights if live]
    assert squared_loss(state, importance)["a"].tolist() == [float(one) for one in lost]
    expected = [float(one / seconds) if seconds else float("inf") for one in lost]
    assert loss_per_second(state, importance, {"a": float(seconds)})["a"].tolist() == expected


def test_what_float32_cannot_tell_from_zero_is_told_apart() -> None:
    state = SparseState({"a": np.array([1e-15, 2e-15], np.float32)}, full(a=2))
    found = squared_loss(state, {"a": np.array([1e-20, 1e-20], np.float32)})["a"]
    assert 0 < found[0] < found[1]


def test_seconds_of_a_weight_are_the_slope_where_time_is_linear() -> None:
    time = LinearTime(3.0, {"a": 0.5, "b": 0.0, "c": 2.0})
    assert seconds_per_weight(time, {"a": 4, "b": 7, "c": 0}) == {"a": 0.5, "b": 0.0, "c": 0.0}


def test_a_layer_that_runs_dense_is_not_free() -> None:
    # dense: 8 s at any count; sparse: 2 s and 0.1 s a weight, so dense from 60 weights on
    time = KinkedTime(1.0, {"a": ((8.0, 0.0), (2.0, 0.1)), "b": ((0.0, 1.0),)})
    assert seconds_per_weight(time, {"a": 100, "b": 1})["a"] == pytest.approx((8 - 2) / 100)
    assert seconds_per_weight(time, {"a": 40, "b": 1})["a"] == pytest.approx(0.1)


def test_where_another_device_is_the_slowest_only_what_a_round_would_gain_counts() -> None:
    slow, floor = LinearTime(0.0, {"a": 1.0}), LinearTime(6.0, {"a": 0.0})
    assert seconds_per_weight(FleetTime((slow, floor)), {"a": 10}) == {"a": pytest.approx(0.4)}
    assert seconds_per_weight(FleetTime((slow, floor)), {"a": 5}) == {"a": 0.0}


def test_an_account_says_by_layer_what_went_what_came_and_what_it_is_expected_to_cost() -> None:
    before = Masks({"a": np.array([True, True, True, False]), "b": np.array([True, False])})
    after = Masks({"a": np.array([True, False, False, True]), "b": np.array([True, False])})
    dense = {"a": np.array([1, 2, 3, 9], np.float32), "b": np.array([5, 5], np.float32)}
    importance = {"a": np.array([1, 2, 3, 4], np.float32), "b": np.array([7, 8], np.float32)}
    importance["bias"] = np.array([10], np.float32)
    time = LinearTime(1.0, {"a": 0.5, "b": 2.0})
    account = account_for(SparseState.from_dense(dense, before), after, importance, time, batch_size=20)
    # cut: the second and third of a, w²z = 4·2 and 9·3; half the batch size times that
    expected = {"cut": 2, "grown": 1, "seconds": 1.0, "saved": 1.0, "gain": 5.0, "lost": 10 * (8 + 27)}
    untouched = {"cut": 0, "grown": 0, "seconds": 2.0, "saved": 0.0, "gain": 7.0, "lost": 0.0}
    assert as_note(account) == {
        "gamma": (10 + 1 + 4 + 7) / (1 + 2 * 0.5 + 2.0),
        "seconds": 4.0,
        "lost": 350.0,
        "layers": {"a": expected, "b": untouched},
    }


def test_the_expected_loss_is_what_cutting_costs_at_a_minimum(rng: np.random.Generator) -> None:
    """Logistic regression, where Fisher information and curvature are the same."""
    samples, batch, size = 4000, 20, 6
    x = rng.standard_normal((samples, size))
    w = rng.standard_normal(size) / 2
    w[2] = 0.15  # what is cut is small, or no expansion holds
    y = rng.random(samples) < 1 / (1 + np.exp(-x @ w))
    for _ in range(30):  # Newton's iteration to the minimum
        p = 1 / (1 + np.exp(-x @ w))
        w = w - np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]), x.T @ (p - y))

    def loss(weights: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0, x @ weights) - y * (x @ weights)))

    gradients = (x * (p - y)[:, None]).reshape(-1, batch, size).mean(axis=1)
    importance = {"a": np.square(gradients).mean(axis=0).astype(np.float32)}
    state = SparseState({"a": w.astype(np.float32)}, full(a=size))
    left = np.arange(size) != 2
    account = account_for(state, Masks({"a": left}), importance, LinearTime(1.0, {"a": 1.0}), batch)
    assert account.lost == pytest.approx(loss(np.where(left, w, 0)) - loss(w), rel=0.4)
