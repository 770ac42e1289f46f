"""The prunable set has exact counts, and the size limit is a straight line that is never exceeded."""

import pytest
import torch

from prunefl.core.prunable import (
    allowed_weights,
    protected_masks,
    prunable_fraction,
    size_limit,
    without_smallest,
)


def test_the_smallest_fraction_of_each_layer_is_prunable_with_exact_counts_under_ties() -> None:
    weights = {"a": torch.ones(10, 10), "b": torch.tensor([3.0, -1.0, 2.0, 0.0])}
    masks = {"a": torch.ones(10, 10, dtype=torch.bool), "b": torch.tensor([True, True, False, True])}
    protected = protected_masks(weights, masks, 0.3, "layer")
    assert int(protected["a"].sum()) == 70
    assert not protected["a"].flatten()[:30].any()  # of equals the first ones
    assert protected["b"].tolist() == [True, True, False, False]  # a live weight of value 0.0 counts as live


def test_global_scope_compares_magnitudes_across_layers() -> None:
    weights = {"a": torch.tensor([0.1, 0.2, 0.3, 0.4]), "b": torch.tensor([1.0, 2.0, 3.0, 4.0])}
    masks = {n: torch.ones(4, dtype=torch.bool) for n in weights}
    protected = protected_masks(weights, masks, 0.5, "global")
    assert not protected["a"].any()
    assert protected["b"].all()


def test_every_count_is_removed_exactly_and_smallest_first() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {n: torch.randint(-3, 4, (5, 7), generator=generator).float() for n in "ab"}
    masks = {n: torch.rand(5, 7, generator=generator) < 0.6 for n in "ab"}
    live = sum(int(m.sum()) for m in masks.values())
    for count in range(live + 1):
        kept = without_smallest(weights, masks, count)
        assert sum(int(m.sum()) for m in kept.values()) == live - count
        assert all(not (kept[n] & ~masks[n]).any() for n in masks)
        gone = [w.abs() for n in "ab" for w in weights[n][masks[n] & ~kept[n]]]
        stay = [w.abs() for n in "ab" for w in weights[n][kept[n]]]
        assert not gone or not stay or max(gone) <= min(stay)


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
    with pytest.raises(ValueError, match=r"fraction=1.5"):
        protected_masks({}, {}, 1.5, "layer")
    with pytest.raises(ValueError, match=r"scope='model'"):
        protected_masks({}, {}, 0.5, "model")


def test_allowed_weights_never_exceed_and_forgive_binary_fractions() -> None:
    assert allowed_weights(0.05, 6_601_500) == 330_075
    assert allowed_weights(0.29, 100) == 29
    assert allowed_weights(0.299, 100) == 29
    assert allowed_weights(None, 7) == 7
    assert allowed_weights(1.0, 7) == 7
