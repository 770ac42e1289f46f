"""Means, intervals and R² against numbers worked out elsewhere."""

import pytest

from prunefl.report.statistics import (
    Estimate,
    estimate,
    estimate_ratio,
    r_squared,
    signed,
    spoken,
    t_quantile,
)


def test_t_quantiles_are_students() -> None:
    assert [t_quantile(freedom) for freedom in (1, 2, 4, 30)] == [12.706, 4.303, 2.776, 2.042]
    # tables give 2.021, 2.000, 1.980
    assert [round(t_quantile(freedom), 3) for freedom in (40, 60, 120)] == [2.021, 2.0, 1.98]


def test_interval_of_three_seeds_by_hand() -> None:
    """Mean 2, standard deviation 1, so that half the interval is 4.303 / √3."""
    assert estimate([1.0, 2.0, 3.0]) == Estimate(2.0, pytest.approx(4.303 / 3**0.5), 3, 1.0, 3.0)


def test_one_seed_and_two_have_no_interval() -> None:
    assert estimate([5.0]) == Estimate(5.0, None, 1, 5.0, 5.0)
    assert estimate([5.0, 7.0]) == Estimate(6.0, None, 2, 5.0, 7.0)


def test_an_estimate_is_spoken_as_far_as_it_goes() -> None:
    assert spoken(estimate([1.0, 2.0, 3.0]), 1) == "2.0 (1.0–3.0)"
    assert spoken(estimate([10.0, 11.0, 12.0]), 1) == "11.0 ± 2.5"
    assert spoken(estimate([-1.0, 0.0, 1.0]), 1) == "0.0 ± 2.5"
    assert spoken(estimate([5.0, 7.0]), 0) == "6 (5–7)"
    assert spoken(estimate([5.0]), 0) == spoken(estimate([5.0, 5.0, 5.0]), 0) == "5"


def test_a_difference_has_its_sign_and_its_interval_even_across_zero() -> None:
    assert signed(estimate([-1.0, 0.0, 2.0]), 1) == "+0.3 ± 3.8"
    assert signed(estimate([-1.0, 2.0]), 1) == "+0.5 (-1.0–+2.0)"
    assert signed(estimate([-0.25])) == "-0.25"


def test_a_ratio_is_of_each_seed_with_itself() -> None:
    """Twice and eight times: four times on average, as sizes multiply."""
    found = estimate_ratio([(2.0, 1.0), (40.0, 5.0)])
    assert (found.mean, found.low, found.high) == pytest.approx((4.0, 2.0, 8.0))


def test_r_squared_of_a_hand_made_case() -> None:
    """Spread 2 around the mean 2, missed by 0.5 once: 1 - 0.25 / 2."""
    assert r_squared([1.0, 2.0, 3.5], [1.0, 2.0, 3.0]) == pytest.approx(0.875)


def test_r_squared_is_not_given_where_nothing_was_to_predict() -> None:
    assert r_squared([5.0, 5.0], [4.9, 5.1]) is None
    assert r_squared([], []) is None
