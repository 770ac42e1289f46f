"""Masks: the truth about the pattern, which nobody can change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.core.masks import Masks, unpack_mask
from random_states import Dense, dense_states, shapes


def bits(number: int) -> np.ndarray:
    return np.array([bool(number >> place & 1) for place in range(20)])


numbers = st.integers(0, 2**20 - 1)


@given(numbers, st.one_of(st.none(), numbers))
def test_two_masks_are_equal_and_of_one_digest_only_if_they_name_the_same_weights(a, b):
    first, second = Masks({"w": bits(a)}), Masks({"w": bits(a if b is None else b)})
    same = b is None or a == b
    assert (first.digest == second.digest) == same
    assert (first == second) == same
    assert (first != second) == (not same)
    assert len({first, second}) == (1 if same else 2)


@given(dense_states())
def test_counts_sizes_and_density_are_numpys(state: tuple[Dense, Dense, Dense]) -> None:
    masks = Masks(state[1])
    assert list(masks) == list(state[1])
    assert len(masks) == len(state[1])
    assert masks.counts == {name: int(mask.sum()) for name, mask in state[1].items()}
    assert masks.sizes == {name: mask.size for name, mask in state[1].items()}
    assert masks.shapes == {name: mask.shape for name, mask in state[1].items()}
    assert masks.size == sum(mask.size for mask in state[1].values())
    live = sum(int(mask.sum()) for mask in state[1].values())
    assert masks.density == (live / masks.size if masks.size else 0.0)
    for name, mask in state[1].items():
        np.testing.assert_array_equal(masks[name], mask)
        assert masks.flat(name).tolist() == mask.reshape(-1).tolist()


@given(dense_states())
def test_packed_masks_unpack_to_what_they_were(state: tuple[Dense, Dense, Dense]) -> None:
    masks = Masks(state[1])
    for name, packed in masks.packed.items():
        assert packed.size == -(-masks.sizes[name] // 8)
        np.testing.assert_array_equal(unpack_mask(packed, masks.shapes[name]), state[1][name])


def test_the_first_weight_is_the_lowest_bit():
    assert Masks({"w": bits(0b1_0000_0011)}).packed["w"].tolist() == [0b11, 1, 0]


@pytest.mark.parametrize("wrong", [np.zeros(2, np.uint8), np.zeros(4, np.uint8), np.zeros(3, np.int8)])
def test_bits_that_are_not_of_the_shape_are_refused(wrong):
    with pytest.raises(ValueError, match=r"for a mask of shape \(4, 5\)"):
        unpack_mask(wrong, (4, 5))


def test_a_mask_cannot_be_written_to():
    masks = Masks({"w": np.ones((2, 3), dtype=np.bool_)})
    for write in (
        lambda: masks["w"].__setitem__((0, 0), False),
        lambda: masks["w"].fill(False),
        lambda: masks.flat("w").__setitem__(0, 0),
        lambda: np.logical_not(masks["w"], out=masks["w"]),
        lambda: next(iter(masks.values())).sort(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(TypeError):
        masks["w"] = np.zeros((2, 3), dtype=np.bool_)
    assert masks.density == 1.0


def test_what_is_written_into_the_array_it_was_made_of_does_not_reach_a_mask():
    given_array = np.ones((2, 4), dtype=np.bool_)
    masks, again = Masks({"w": given_array}), Masks({"w": given_array[:]})
    before = masks.digest
    given_array[0, 3] = False
    assert masks["w"].all()
    assert again["w"].all()
    assert Masks({"w": given_array}).digest != before == masks.digest == again.digest


def test_masks_of_masks_share_their_memory():
    masks = Masks({"w": np.ones(8, dtype=np.bool_)})
    assert np.shares_memory(Masks({"v": masks["w"]})["v"], masks["w"])


def test_a_mask_that_is_not_of_bools_is_refused():
    with pytest.raises(ValueError, match=r"mask of w is float32, must be bool"):
        Masks({"w": np.ones(4, dtype=np.float32)})


def test_a_digest_depends_on_name_and_shape():
    mask = np.ones(6, dtype=np.bool_)
    found = {Masks({"a": mask}), Masks({"b": mask}), Masks({"a": mask.reshape(2, 3)})}
    assert len(found) == len({masks.digest for masks in found}) == 3


@given(st.dictionaries(st.sampled_from("abcd"), shapes))
def test_full_masks_have_every_weight(layers):
    masks = Masks.full(layers)
    assert masks.shapes == layers
    assert masks.counts == masks.sizes
    assert all(mask.all() for mask in masks.values())


def test_masks_are_told_by_their_size_and_not_by_their_bits():
    assert repr(Masks({"w": bits(7), "v": bits(0)})) == "Masks(2 layers, 3 of 40 weights live)"


def test_masks_are_not_equal_to_what_is_no_masks():
    assert Masks({"w": bits(7)}) != {"w": bits(7)}
