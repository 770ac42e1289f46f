"""Exactly as many weights stay as asked for, and they are the best ones, against a stable sort."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core import select
from prunefl.core.masks import Masks
from random_states import full, generators

with_ties = st.sampled_from([0.0, -0.0, 1.0, 1.0, 2.0, -3.0, math.inf, -math.inf, math.nan])
scores = st.lists(st.one_of(with_ties, st.floats(width=32)), max_size=30)
finite = st.lists(st.one_of(st.integers(0, 4).map(float), st.floats(-9, 9, width=32)), max_size=30)
kinds = st.sampled_from([np.float32, np.float64])


def best(values: list[float], count: int) -> list[int]:
    """Return the places of the largest, in order, by a stable sort; NaN is like the smallest that there is."""
    order = sorted(range(len(values)), key=lambda at: math.inf if math.isnan(values[at]) else -values[at])
    return sorted(order[: max(0, count)])


@given(scores, kinds, st.integers(-1, 31))
def test_the_largest_are_those_of_a_stable_sort(values, kind, count):
    assert np.flatnonzero(select.largest(np.array(values, kind), count)).tolist() == best(values, count)


@given(st.lists(st.integers(-3, 3), max_size=30), st.integers(-1, 31))
def test_whole_numbers_are_sorted_too(values, count):
    assert np.flatnonzero(select.largest(np.array(values, np.int64), count)).tolist() == best(values, count)


def test_nan_is_never_preferred():
    assert select.largest(np.array([1.0, np.nan, 0.0]), 2).tolist() == [True, False, True]


@given(st.lists(scores, min_size=1, max_size=4), st.integers(-1, 121))
def test_pools_are_ranked_together_the_earlier_pool_first(pools, count):
    named = {f"{number}": np.array(values, np.float32) for number, values in enumerate(pools)}
    before = {name: values.copy() for name, values in named.items()}
    found = select.largest_together(named, count)
    assert list(found) == list(named)
    assert [chosen.size for chosen in found.values()] == [len(values) for values in pools]
    joined = [value for values in pools for value in values]
    assert np.flatnonzero(np.concatenate(list(found.values()))).tolist() == best(joined, count)
    assert all(np.array_equal(named[name], before[name], equal_nan=True) for name in named)


@given(generators, st.integers(0, 60))
def test_what_is_kept_of_many_layers_was_alive_and_is_the_best(rng, count):
    masks = Masks({name: rng.random((4, 6)) < 0.6 for name in "ab"})
    given_scores = {name: rng.integers(0, 4, live).astype(np.float32) for name, live in masks.counts.items()}
    found = select.keep_largest(masks, given_scores, count)
    places = [(name, at) for name in masks for at in np.flatnonzero(masks[name])]
    chosen = best([float(score) for name in masks for score in given_scores[name]], count)
    assert [(n, at) for n in found for at in np.flatnonzero(found[n])] == [places[place] for place in chosen]


def test_global_choice_ranks_layers_together_and_never_revives():
    among = Masks({"a": np.array([True, True, False]), "b": np.array([[True, True]])})
    kept = select.keep_largest(among, {"a": np.array([5.0, 1.0]), "b": np.array([4.0, 2.0])}, 2)
    assert kept["a"].tolist() == [True, False, False]
    assert kept["b"].tolist() == [[True, False]]


@given(st.lists(finite, min_size=1, max_size=3), st.data())
def test_each_layer_keeps_its_own_best(layers, data):
    named = {f"{number}": np.array(values, np.float32) for number, values in enumerate(layers)}
    counts = {name: data.draw(st.integers(0, values.size)) for name, values in named.items()}
    masks = full(**{name: values.size for name, values in named.items()})
    found = select.keep_largest_by_layer(masks, named, counts)
    for name, values in named.items():
        assert np.flatnonzero(found[name]).tolist() == best(values.tolist(), counts[name])


@given(st.lists(scores, min_size=1, max_size=3), st.data())
def test_the_smallest_that_go_are_those_of_a_stable_sort_and_nan_goes_last(layers, data):
    joined = [value for values in layers for value in values]
    count = data.draw(st.integers(0, len(joined)))
    named = {f"{number}": np.array(values, np.float32) for number, values in enumerate(layers)}
    masks = full(**{name: values.size for name, values in named.items()})
    found = select.drop_smallest(masks, named, count)
    gone = np.flatnonzero(~np.concatenate(list(found.values()))).tolist()
    order = sorted(range(len(joined)), key=lambda at: math.inf if math.isnan(joined[at]) else joined[at])
    assert gone == sorted(order[:count])


def test_every_count_is_removed_exactly_and_smallest_first(rng):
    masks = Masks({name: rng.random((5, 7)) < 0.6 for name in "ab"})
    weights = {name: rng.integers(-3, 4, live).astype(np.float32) for name, live in masks.counts.items()}
    live = sum(masks.counts.values())
    assert live > 10
    for count in range(live + 1):
        kept = select.drop_smallest(masks, select.magnitudes(weights, masks), count)
        assert sum(kept.counts.values()) == live - count
        assert all(not (kept[n] & ~masks[n]).any() for n in masks)
        gone = [abs(w) for n in "ab" for w in weights[n][~kept[n][masks[n]]]]
        stay = [abs(w) for n in "ab" for w in weights[n][kept[n][masks[n]]]]
        assert max(gone, default=0.0) <= min(stay, default=math.inf)


def test_magnitudes_are_of_layers_with_a_mask_alone():
    values = {"w": np.array([-2.0, 1.0], np.float32), "b": np.array([-1.0], np.float32)}
    found = select.magnitudes(values, full(w=2))
    assert {name: sizes.tolist() for name, sizes in found.items()} == {"w": [2.0, 1.0]}


@pytest.mark.parametrize(
    ("density", "total", "count"), [(0.3, 10, 3), (0.0, 10, 1), (1.0, 7, 7), (0.05, 6_601_500, 330_075)]
)
def test_a_target_is_rounded_and_never_nothing(density, total, count):
    assert select.target_count(density, total) == count
    assert select.layer_targets(density, full(w=total)) == {"w": count}
