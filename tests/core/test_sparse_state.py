"""One state: what is live travels, what is pruned is zero, whatever stood there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core.masks import Masks
from prunefl.core.randomness import Stream
from prunefl.core.state import SparseState
from random_states import Dense, dense_states, same_bits


def masked(weights: Dense, masks: Dense) -> Dense:
    """Return plain numpy's view of a state: zero where pruned."""
    return {n: np.where(masks[n], w, np.float32(0)) if n in masks else w for n, w in weights.items()}


@given(dense_states())
def test_a_state_is_numpys_boolean_index_and_back(state: tuple[Dense, Dense, Dense]) -> None:
    weights, masks, _ = state
    found = SparseState.from_dense(weights, Masks(masks))
    assert list(found.values) == list(weights)
    expected = masked(weights, masks)
    for name, weight in weights.items():
        assert same_bits(found.values[name], weight[masks[name]] if name in masks else weight)
        assert same_bits(found.dense(name), expected[name])


@given(dense_states())
def test_new_masks_keep_survivors_and_add_zeros(state: tuple[Dense, Dense, Dense]) -> None:
    weights, old, new = state
    found = SparseState.from_dense(weights, Masks(old)).remask(Masks(new))
    assert list(found.values) == list(weights)
    assert found.masks == Masks(new)
    expected = masked(masked(weights, old), new)
    for name in weights:
        assert same_bits(found.dense(name), expected[name])


@given(dense_states())
def test_there_and_back_again_loses_what_was_pruned_between(state: tuple[Dense, Dense, Dense]) -> None:
    weights, old, new = state
    first = SparseState.from_dense(weights, Masks(old))
    back = first.remask(Masks(new)).remask(Masks(old))
    expected = masked(masked(weights, new), old)
    for name in weights:
        assert same_bits(back.dense(name), expected[name])
        assert same_bits(first.dense(name), masked(weights, old)[name])  # the first is as it was


@given(dense_states(), st.integers(0, 2**32 - 1))
def test_regrowth_draws_for_new_weights_alone_layer_by_layer(
    state: tuple[Dense, Dense, Dense], seed: int
) -> None:
    weights, old, new = state
    found = SparseState.from_dense(weights, Masks(old)).remask(Masks(new), Stream(seed), 0.01)
    expected, source = masked(masked(weights, old), new), Stream(seed)
    for name in new:
        added = new[name] & ~old[name]
        whole = np.array(expected[name])
        whole[added] = 0.01 * source.normal(int(added.sum()))
        assert same_bits(found.dense(name), whole)
    assert all(same_bits(found.values[name], weights[name]) for name in weights.keys() - new.keys())


def test_survivors_keep_their_value_and_new_weights_start_at_zero_whatever_stood_there():
    weights = {"w": np.array([1, 2, 3, 4], np.float32), "b": np.array([9], np.float32)}
    old, new = Masks({"w": np.array([1, 1, 0, 0], bool)}), Masks({"w": np.array([1, 0, 1, 0], bool)})
    state = SparseState.from_dense(weights, old).remask(new)
    assert state.values["w"].tolist() == [1.0, 0.0]
    assert state.values["b"].tolist() == [9.0]


def test_perturbed_regrowth_touches_only_new_weights():
    old, new = Masks({"w": np.array([True, False])}), Masks({"w": np.array([True, True])})
    state = SparseState({"w": np.ones(1, np.float32)}, old).remask(new, Stream(0), 0.01)
    assert state.values["w"][0] == 1.0
    assert 0 < abs(float(state.values["w"][1])) < 0.1


def test_masks_that_stand_leave_the_state_as_it_is():
    masks = Masks({"w": np.array([True, False])})
    state = SparseState({"w": np.ones(1, np.float32)}, masks)
    assert state.remask(masks) is state


def test_a_live_zero_stays_live():
    masks = Masks({"w": np.array([[True, False], [True, True]])})
    state = SparseState({"w": np.array([0, 5, -0.0], np.float32)}, masks)
    assert state.dense("w").tolist() == [[0.0, 0.0], [5.0, 0.0]]
    assert np.signbit(state.dense("w")[1, 1])
    assert state.masks.counts == {"w": 3}


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1), (2, 2)])
def test_values_that_are_not_as_many_as_live_weights_are_refused(shape):
    masks = Masks({"w": np.array([[True, False], [True, True]])})
    with pytest.raises(ValueError, match=r"values\['w'\] has shape .*, its mask \(3,\)"):
        SparseState({"w": np.zeros(shape, np.float32)}, masks)


def test_a_mask_without_values_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no values of 'absent', which has a mask"):
        SparseState({}, Masks({"absent": np.ones(2, dtype=np.bool_)}))


def test_states_are_compared_by_identity_not_by_arrays_of_which_nobody_says_how():
    state, again = (SparseState({"w": np.ones(3, np.float32)}, Masks({})) for _ in range(2))
    assert state == state
    assert state != again
    assert len({state, again}) == 2
