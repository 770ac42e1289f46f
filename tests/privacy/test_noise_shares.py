"""Noise in shares: the sum of those who remain has what was promised, and says nothing that values alone would not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Layout, Segment, Words, decode
from prunefl.privacy.graph import count_needed
from prunefl.privacy.noise_shares import Noising, encode_noised

COUNT = 20_000
FOUR_ERRORS = 4 / np.sqrt(2 * COUNT)
"""Of a standard deviation that is estimated from so many numbers."""


def layout_of(noising: Noising, clients: int, size: int = COUNT) -> Layout:
    reach = noising.find_range(noising.clip, noising.noise * noising.clip)
    return Layout((Segment("values", size, reach),), clients)


def encode(values, noising: Noising, layout: Layout, normal) -> Words:
    sigmas = {"values": noising.share(noising.noise * noising.clip)}
    return encode_noised({"values": values}, sigmas, layout, normal)


def silent(count: int):
    return np.zeros(count)


@settings(deadline=None, max_examples=20)
@given(st.integers(3, 40), st.floats(0.01, 10), st.floats(0.01, 100), st.data())
def test_the_sum_of_any_that_may_remain_has_the_noise_that_is_promised(clients, noise, clip, data) -> None:
    noising = Noising(noise, clip, count_needed(clients, 2 / 3))
    remaining = data.draw(st.integers(noising.enough, clients))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    layout = layout_of(noising, clients)
    values = random.uniform(-1, 1, (remaining, COUNT))
    values *= clip / np.linalg.norm(values, axis=1, keepdims=True)
    total = Words.zeros(layout)
    for one in values:
        total.add(encode(one, noising, layout, random.standard_normal))
    left = decode(total, layout)["values"] - values.sum(axis=0)
    promised = noise * clip
    assert left.std() >= promised * (1 - FOUR_ERRORS)
    assert left.std() == pytest.approx(promised * np.sqrt(remaining / noising.enough), rel=FOUR_ERRORS)
    assert abs(left.mean()) < 5 * left.std() / np.sqrt(COUNT)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.integers(3, 1000), st.integers(0, 2**32 - 1))
def test_noise_does_not_depend_on_values_and_no_norm_grows(values, clients: int, seed: int) -> None:
    noising, flat = Noising(2.0, 1.0, count_needed(clients, 2 / 3)), np.asarray(values)
    flat = flat / max(1.0, float(np.linalg.norm(flat)))
    layout = layout_of(noising, clients, flat.size)
    noised, noise = (
        encode(one, noising, layout, np.random.default_rng(seed).standard_normal)
        for one in (flat, np.zeros(flat.size))
    )
    step = layout.segments[0].step(clients)
    alone = (noised.wide - noise.wide).view(np.int32)
    assert np.array_equal(alone, np.trunc(flat / step).astype(np.int32))
    assert float(np.linalg.norm(alone.astype(np.float64))) * step <= float(np.linalg.norm(flat)) * (1 + 1e-12)


def test_noise_beyond_the_range_goes_round_and_is_not_cut_off() -> None:
    noising = Noising(1.0, 1.0, 3)
    layout = layout_of(noising, 3, 1)
    far = encode(np.zeros(1), noising, layout, lambda count: np.full(count, 1e4))
    back = encode(np.zeros(1), noising, layout, lambda count: np.full(count, -1e4))
    far.add(back)
    assert far.wide.tolist() == [0]


@pytest.mark.parametrize("bits", [32, 16])
def test_a_grid_on_which_noise_would_be_rounded_away_is_refused(bits: int) -> None:
    noising = Noising(1.0, 1.0, 3)
    segment = Segment("values", 5, 1e9 if bits == 32 else 20.0, bits)
    with pytest.raises(Refused, match="what is rounded away would hide nothing"):
        encode(np.zeros(5), noising, Layout((segment,), 3), silent)


def test_a_range_that_does_not_hold_what_may_be_sent_is_refused() -> None:
    with pytest.raises(Refused, match=r"a range of 0\.5"):
        encode(np.ones(1), Noising(1.0, 1.0, 3), Layout((Segment("values", 1, 0.5),), 3), silent)
