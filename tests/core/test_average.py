"""From many updates to one, against torch's sums, numpy's and exact ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core import average
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from random_states import any_mask, full, generators, same_bits, shapes

clients = st.integers(1, 6)


def drawn(
    rng: np.random.Generator, number: int, shape: tuple[int, ...]
) -> tuple[list[np.ndarray], list[float]]:
    """Return arrays of several sizes and memory layouts, and shares that add up to one."""
    arrays = [
        np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6), np.float32)
        for _ in range(number)
    ]
    arrays = [np.asfortranarray(a) if a.ndim > 1 and rng.integers(2) else a for a in arrays]
    return arrays, average.shares([int(n) for n in rng.integers(1, 1000, number)], "samples")


@given(generators, clients, shapes)
def test_a_weighted_mean_has_the_bits_of_torchs_sum(rng, number, shape):
    torch = pytest.importorskip("torch")
    arrays, weights = drawn(rng, number, shape)
    kept = [array.copy() for array in arrays]
    expected = torch.from_numpy(arrays[0]) * weights[0]
    for array, weight in zip(arrays[1:], weights[1:], strict=True):
        expected.add_(torch.from_numpy(array), alpha=weight)
    assert same_bits(average.weighted_mean(arrays, weights), expected.numpy())
    assert all(same_bits(array, before) for array, before in zip(arrays, kept, strict=True))


@given(generators, clients, shapes)
def test_a_weighted_mean_is_the_float64_one_within_rounding(rng, number, shape):
    arrays, weights = drawn(rng, number, shape)
    terms = np.array(
        [weight * array.astype(np.float64) for array, weight in zip(arrays, weights, strict=True)]
    )
    found = average.weighted_mean(arrays, weights)
    # a rounding of the weight and one of each product and sum, of what has been added up so far
    bound = (number + 1) * 2.0**-24 * np.abs(terms).sum(axis=0) + 1e-44
    assert found.shape == shape
    assert (np.abs(found - terms.sum(axis=0)) <= bound).all()


def test_one_array_is_not_handed_back_but_copied():
    one = np.ones(3, np.float32)
    assert not np.shares_memory(average.weighted_mean([one], [1.0]), one)


def test_shares_are_proportional_to_samples_or_uniform():
    assert average.shares([1, 3], "samples") == [0.25, 0.75]
    assert average.shares([1, 3], "uniform") == [0.5, 0.5]


def arrays_of(*numbers: float) -> list[np.ndarray]:
    return [np.array([number], np.float32) for number in numbers]


def test_one_liar_moves_the_mean_but_not_the_median_or_the_trimmed_mean():
    arrays, weights = arrays_of(1.0, 2.0, 3.0, 1e9), [0.25] * 4
    assert average.weighted_mean(arrays, weights) > 1e8
    assert average.median(arrays, weights).item() == 2.5
    assert average.trimmed_mean(0.25)(arrays, weights).item() == 2.5
    assert average.trimmed_mean(0.1)(arrays, weights).item() == 2.5
    assert average.trimmed_mean(0.1)(arrays[1:], weights[1:]).item() == 3.0
    assert average.trimmed_mean(0.0)(arrays[:3], weights[:3]).item() == 2.0


def test_a_trimmed_mean_leaves_out_its_share_and_no_more():
    arrays = arrays_of(*range(27), 1e9, 1e9, 1e9)
    assert average.trimmed_mean(0.1)(arrays, [1 / 30] * 30).item() == 14.5


@given(generators, clients, shapes)
def test_robust_means_are_numpys_and_of_the_shape_they_were_given(rng, number, shape):
    arrays, weights = drawn(rng, number, shape)
    stacked = np.stack(arrays)
    for found, expected in (
        (average.median(arrays, weights), np.median(stacked.astype(np.float64), axis=0)),
        (average.trimmed_mean(0.0)(arrays, weights), stacked.astype(np.float64).mean(axis=0)),
    ):
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float32
        assert found.shape == shape
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(stacked).max(initial=0.0))


def test_a_weight_is_averaged_over_the_clients_that_hold_it():
    masks = [Masks({"w": np.array(held)}) for held in ([True, True, False], [True, False, False])]
    states = [
        SparseState({"w": np.array(values, np.float32)}, own)
        for values, own in zip(([2.0, 4.0], [6.0]), masks, strict=True)
    ]
    mean = average.mean_over_holders(states, [0.25, 0.75])
    assert mean.dense("w").tolist() == [0.25 * 2 + 0.75 * 6, 4.0, 0.0]
    assert mean.masks["w"].tolist() == [True, True, False]


@given(generators, clients, shapes)
def test_the_mean_over_holders_is_numpys_weighted_average_of_those(rng, number, shape):
    arrays, weights = drawn(rng, number, shape)
    held = [any_mask(rng, shape, 0.5) for _ in range(number)]
    states = [
        SparseState.from_dense({"w": array, "b": array}, Masks({"w": mask}))
        for array, mask in zip(arrays, held, strict=True)
    ]
    found = average.mean_over_holders(states, weights)
    share = np.array([weight * mask for mask, weight in zip(held, weights, strict=True)], np.float64)
    union = share.sum(axis=0) > 0
    total = (share * np.array(arrays, np.float64)).sum(axis=0)
    np.testing.assert_array_equal(found.masks["w"], union)
    expected = np.where(union, total / np.where(union, share.sum(axis=0), 1.0), 0.0)
    scale = np.abs(np.array(arrays)).max(initial=0.0)
    np.testing.assert_allclose(found.dense("w"), expected, rtol=1e-5, atol=1e-5 * scale)
    assert same_bits(found.values["b"], average.weighted_mean(arrays, weights))


def test_states_are_combined_name_by_name_under_their_masks():
    masks = full(w=2)
    states = [
        SparseState({"w": np.full(2, x, np.float32), "b": np.array(x, np.float32)}, masks) for x in (1, 3)
    ]
    found = average.combine_states(states, [0.5, 0.5], average.weighted_mean)
    assert found.masks is masks
    assert {name: values.tolist() for name, values in found.values.items()} == {"w": [2.0, 2.0], "b": 2.0}


@pytest.mark.parametrize(("limit", "expected"), [(10.0, [3.0, 4.0]), (2.5, [1.5, 2.0])])
def test_a_change_is_clipped_to_its_norm(limit, expected):
    start = SparseState({"w": np.zeros(2, np.float32)}, Masks({}))
    state = SparseState({"w": np.array([3.0, 4.0], np.float32)}, Masks({}))
    assert average.clip_change(state, start, limit).values["w"].tolist() == expected
