"""bfloat16 and float16 against torch's conversions: every half there is, and the floats between them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prunefl.wire import values
from prunefl.wire.errors import WireError
from random_states import same_bits

torch = pytest.importorskip("torch")

PRECISIONS = ["bfloat16", "float16"]
HALVES = np.arange(1 << 16, dtype=np.uint16)
EXPONENT = {"bfloat16": 0x7F80, "float16": 0x7C00}
LARGEST = {"bfloat16": 0x7F7F, "float16": 0x7BFF}


def floats_of(halves: np.ndarray, precision: str) -> np.ndarray:
    """Return what torch says these 16 bits are, float32."""
    return torch.from_numpy(halves.view(np.int16)).view(getattr(torch, precision)).float().numpy()


def halves_of(floats: np.ndarray, precision: str) -> np.ndarray:
    """Return the 16 bits that torch makes of float32, rounded to even."""
    return torch.from_numpy(floats).to(getattr(torch, precision)).view(torch.int16).numpy().view(np.uint16)


def encoded(floats: np.ndarray, precision: str) -> np.ndarray:
    return values.encode("w", floats, precision).view("<u2")


def decoded(halves: np.ndarray, precision: str) -> np.ndarray:
    return values.decode("w", halves.view(np.uint8), halves.size, precision)


def is_finite(halves: np.ndarray, precision: str) -> np.ndarray:
    return halves & EXPONENT[precision] != EXPONENT[precision]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_finite_half_is_torchs_there_and_back(precision: str) -> None:
    finite = HALVES[is_finite(HALVES, precision)]
    assert finite.size == (1 << 16) - 2 * (0x8000 - EXPONENT[precision])
    floats = decoded(finite, precision)
    assert same_bits(floats, floats_of(finite, precision))
    np.testing.assert_array_equal(encoded(floats, precision), finite)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_half_that_is_not_finite_is_refused_by_the_receiver(precision: str) -> None:
    wrong = HALVES[~is_finite(HALVES, precision)]
    assert wrong.size > 200
    for half in wrong:
        with pytest.raises(WireError, match="w holds a value that is NaN, infinite") as caught:
            decoded(np.array([0, half, 0], np.uint16), precision)
        assert caught.value.reason == "values"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_halfway_between_two_halves_is_rounded_to_the_even_one(precision: str) -> None:
    lower = np.arange(LARGEST[precision], dtype=np.uint16)
    # in float64 the middle of two halves is exact; of the smallest bfloat16 it is a float32, too
    ends = floats_of(lower, precision).astype(np.float64), floats_of(lower + 1, precision).astype(np.float64)
    middle = ((ends[0] + ends[1]) / 2).astype(np.float32)
    assert ((middle > ends[0]) & (middle < ends[1])).all()
    even = np.where(lower % 2 == 0, lower, lower + 1)
    for sign, bit in ((1, 0), (-1, 0x8000)):
        np.testing.assert_array_equal(encoded(np.float32(sign) * middle, precision), even | bit)
        for side, expected in ((np.float32(0), lower), (np.float32(np.inf), lower + 1)):
            beside = np.float32(sign) * np.nextafter(middle, side)
            np.testing.assert_array_equal(encoded(beside, precision), expected | bit)


@pytest.mark.parametrize("precision", PRECISIONS)
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@example(bits=[0, 0x80000000, 1, 0x007FFFFF, 0x33000000, 0x33000001, 0x387FFFFF])
def test_any_float_that_fits_is_rounded_as_torch_rounds_it(precision: str, bits: list[int]) -> None:
    floats = np.array(bits, np.uint32).view(np.float32)
    fits = np.isfinite(floats) & is_finite(halves_of(floats, precision), precision)
    np.testing.assert_array_equal(encoded(floats[fits], precision), halves_of(floats[fits], precision))


@pytest.mark.parametrize("precision", PRECISIONS)
@given(bits=st.integers(0, 0x7F7FFFFF), negative=st.booleans(), place=st.integers(0, 4))
@example(bits=0x7F7FFFFF, negative=True, place=3)
def test_a_finite_float_is_refused_by_the_sender_only_if_torch_makes_it_infinite(
    precision: str, bits: int, negative: bool, place: int
) -> None:
    floats = np.zeros(5, np.float32)
    floats[place] = np.array(bits, np.uint32).view(np.float32) * (-1 if negative else 1)
    if is_finite(halves_of(floats, precision), precision).all():
        np.testing.assert_array_equal(encoded(floats, precision), halves_of(floats, precision))
    else:
        with pytest.raises(WireError, match=f"too large for {precision}"):
            encoded(floats, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_border_of_overflow_is_half_a_step_beyond_the_largest_half(precision: str) -> None:
    largest = np.array([LARGEST[precision]], np.uint16)
    step = floats_of(largest, precision).astype(np.float64) - floats_of(largest - 1, precision)
    border = (floats_of(largest, precision) + step / 2).astype(np.float32)
    np.testing.assert_array_equal(encoded(np.nextafter(border, np.float32(0)), precision), largest)
    for beyond in (border, -border, np.nextafter(border, np.float32(np.inf))):
        with pytest.raises(WireError, match=f"too large for {precision}"):
            encoded(beyond, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("bits", [0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7F800000, 0xFF800000])
def test_what_is_not_finite_stays_so_and_is_refused_by_the_receiver(precision: str, bits: int) -> None:
    sent = encoded(np.array([1, bits, 1], np.uint32).view(np.float32), precision)
    assert is_finite(sent, precision).tolist() == [True, False, True]
    with pytest.raises(WireError, match="NaN, infinite"):
        decoded(sent, precision)
