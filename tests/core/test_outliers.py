"""What stands out of a cohort, against hand-made cohorts and numpy."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prunefl import _core
from prunefl.core import outliers
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9)


@given(numbers, st.floats(0.5, 20))
@example([0.0, 1.0, 5e-324], 0.5)
def test_a_cap_leaves_alone_what_is_within_and_keeps_the_sign_of_the_rest(values, most):
    found = outliers.cap(values, most)
    bound = most * float(np.median(np.abs(values)))
    if len(values) < 3 or not bound:
        assert found == values
    else:
        assert found == [v if abs(v) <= bound else math.copysign(bound, v) for v in values]


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=9), st.floats(0, 1e300))
def test_a_minority_of_one_cannot_move_the_usual_out_of_the_others_range(values, lie):
    assert min(values) <= outliers.find_usual([*values, lie], 0.0) <= max(values)


def test_one_or_two_are_measured_by_what_was_usual_before():
    assert outliers.find_usual([1e30], 2.0) == 2.0
    assert outliers.find_usual([1.0, 1e30], 2.0) == 2.0
    assert outliers.find_usual([1e30], 0.0) == 0.0


def state(*numbers, mask=None):
    masks = Masks({"w": np.ones((1, 3), bool) if mask is None else np.array([mask])})
    dense = {"w": np.array([numbers], np.float32)}
    return SparseState.from_dense(dense, masks)


@pytest.mark.parametrize(
    ("other", "expected"),
    [(state(4, 6, 3), 5.0), (state(1, 2, 9, mask=[True, True, False]), 3.0), (state(1, 2, 3), 0.0)],
)
def test_a_change_is_a_distance_also_under_other_masks(other, expected):
    assert outliers.measure_change(other, state(1, 2, 3)) == expected


def test_the_change_to_weights_of_3e38_is_a_number():
    assert outliers.measure_change(state(3e38, -3e38, 3e38), state(1, 2, 3)) == pytest.approx(3e38 * 3**0.5)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_liar_of_three_is_never_the_most_central(place):
    honest = [state(1, 2, 3), state(1.5, 2.5, 3), state(9, -9, 3)]
    honest.insert(place, honest.pop())
    assert outliers.most_central(honest) is not honest[place]


def test_one_alone_is_central():
    one = state(1, 2, 3)
    assert outliers.most_central([one]) is one


@given(st.integers(0, 100), st.sampled_from([1e-3, 1.0, 1e30]), st.integers(0, 2**32 - 1))
def test_the_norm_of_a_change_is_that_of_float64_at_every_length(size, scale, seed):
    rng = np.random.default_rng(seed)
    one, other = (scale * rng.standard_normal((2, size))).astype(np.float32)
    expected = float(np.square(one.astype(np.float64) - other).sum())
    assert _core.square_distance(one, other) == pytest.approx(expected, rel=1e-12)


def test_a_distance_of_arrays_of_two_sizes_is_refused():
    with pytest.raises(ValueError, match="one size"):
        _core.square_distance(np.zeros(3, np.float32), np.zeros(2, np.float32))
