"""The size limit is a straight line that is never exceeded."""

import pytest

from prunefl.core.limits import allowed_weights, prunable_fraction, size_limit


def test_fraction_halves_every_ten_thousand_rounds() -> None:
    assert prunable_fraction(0) == 0.3
    assert prunable_fraction(10_000) == pytest.approx(0.15)


def test_size_limit_is_the_papers_line_and_either_end_may_be_left_out() -> None:
    assert size_limit(0, 100, 0.1, 0.05) == 0.1
    assert size_limit(50, 100, 0.1, 0.05) == pytest.approx(0.075)
    assert size_limit(100, 100, 0.1, 0.05) == size_limit(500, 100, 0.1, 0.05) == 0.05
    assert size_limit(50, 100, 0.1, None) == 0.1
    assert size_limit(50, 100, None, 0.05) == pytest.approx(0.525)
    assert size_limit(50, 100, None, None) is None


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"limit=0, must be a density"):
        size_limit(0, 10, 0, None)
    with pytest.raises(ValueError, match=r"target=0.5, must be <= limit=0.1"):
        size_limit(0, 10, 0.1, 0.5)


def test_allowed_weights_never_exceed_and_forgive_binary_fractions() -> None:
    assert allowed_weights(0.05, 6_601_500) == 330_075
    assert allowed_weights(0.29, 100) == 29
    assert allowed_weights(0.299, 100) == 29
    assert allowed_weights(None, 7) == 7
    assert allowed_weights(1.0, 7) == 7
