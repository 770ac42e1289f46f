"""Exactly as many weights stay as asked for, and they are the best ones."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from prunefl.methods.survivors import cosine_share, exchange, keep_largest, stream


def largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    return keep_largest({"w": scores}, {"w": torch.ones(len(scores), dtype=torch.bool)}, count)["w"]


scores_with_ties = st.lists(st.integers(0, 4), min_size=1, max_size=30)


@given(scores_with_ties, st.integers(-1, 31))
def test_largest_equals_a_stable_sort(values: list[int], count: int) -> None:
    order = sorted(range(len(values)), key=lambda place: (-values[place], place))
    expected = sorted(order[: max(0, count)])
    assert largest(torch.tensor(values, dtype=torch.float32), count).nonzero().flatten().tolist() == expected


def test_nan_is_never_preferred() -> None:
    assert largest(torch.tensor([1.0, float("nan"), 0.0]), 2).tolist() == [True, False, True]


def test_global_choice_ranks_layers_together_and_never_revives() -> None:
    scores = {"a": torch.tensor([5.0, 1.0, 9.0]), "b": torch.tensor([[4.0, 2.0]])}
    among = {"a": torch.tensor([True, True, False]), "b": torch.tensor([[True, True]])}
    kept = keep_largest(scores, among, 2)
    assert kept["a"].tolist() == [True, False, False]
    assert kept["b"].tolist() == [[True, False]]


def test_exchange_drops_the_smallest_and_grows_the_best() -> None:
    masks = {"w": torch.tensor([True, True, True, True, False, False])}
    weights = {"w": torch.tensor([4.0, -3.0, 0.1, 2.0, 0.0, 0.0])}
    growth = {"w": torch.tensor([9.0, 9.0, 0.0, 9.0, 1.0, 2.0])}
    swapped = exchange(masks, weights, growth, 0.25)
    assert swapped["w"].tolist() == [True, True, False, True, False, True]


def test_a_dropped_weight_may_win_its_place_back() -> None:
    masks = {"w": torch.tensor([True, True, False])}
    weights = {"w": torch.tensor([4.0, 0.1, 0.0])}
    swapped = exchange(masks, weights, {"w": torch.tensor([0.0, 5.0, 1.0])}, 0.5)
    assert swapped["w"].tolist() == [True, True, False]


def test_exchange_of_a_full_layer_changes_nothing() -> None:
    masks = {"w": torch.ones(4, dtype=torch.bool)}
    assert exchange(masks, {"w": torch.rand(4)}, {"w": torch.rand(4)}, 0.5)["w"].all()


def test_cosine_share_falls_to_zero_at_three_quarters() -> None:
    assert cosine_share(0.3, 0, 100) == 0.3
    assert abs(cosine_share(0.3, 37, 74) - 0.3 / 2 * (1 - 0.5)) < 1e-9
    assert cosine_share(0.3, 75, 100) == 0


def test_streams_differ_by_word_and_repeat() -> None:
    draws = [torch.rand(3, generator=stream("set", 1, r)).tolist() for r in (1, 2, 1)]
    assert draws[0] == draws[2] != draws[1]
