"""Messages byte by byte, counted by hand or by a slow reading of the specification."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import decode_subset, xxh64

from prunefl import _coding, wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState

WEIGHT = np.array([[1.0, 0.0, -2.0], [0.5, 4.0, 0.0]], np.float32)
MASKS = Masks({"a.weight": np.array([[True, True, False], [False, True, False]])})  # 0b010011 as bits
BIAS = np.array([8.0, -0.0], np.float32)
STATE = SparseState.from_dense({"a.bias": BIAS, "a.weight": WEIGHT}, MASKS)


def expected(kind: int, patterns: bytes, values: bytes, base: bytes = bytes(16), precision: int = 0) -> bytes:
    """One layer of six weights, three of them live, and two values besides."""
    head = b"PFLW" + bytes([1, 1, precision, 0])
    template = Template(("a.weight", "a.bias"), ((2, 3), (2,)), frozenset({"a.weight"}))
    head += template.digest + MASKS.digest + base + struct.pack("<II", 1, 2)
    word = struct.pack("<Q", 3 + (6 << 30) + (kind << 60))
    message = head + word + patterns + values + struct.pack("<2f", 8.0, -0.0)
    return message + struct.pack("<Q", xxh64(message))


def test_bitmap_message_byte_by_byte() -> None:
    data = wire.pack(STATE, kind="bitmap")
    assert data == expected(2, bytes([0b010011]), struct.pack("<3f", 1.0, 0.0, 4.0))
    assert len(data) == 64 + 8 + 1 + 12 + 8


def test_indices_message_byte_by_byte() -> None:
    pairs = struct.pack("<6H", 0, 0, 0, 1, 1, 1)
    assert wire.pack(STATE, kind="indices") == expected(3, pairs, struct.pack("<3f", 1.0, 0.0, 4.0))


def test_values_only_message_byte_by_byte() -> None:
    data = wire.pack(STATE, known=MASKS)
    assert data == expected(0, b"", struct.pack("<3f", 1.0, 0.0, 4.0), base=MASKS.digest)


def test_a_bitmap_is_taken_when_a_code_would_be_larger() -> None:
    assert wire.pack(STATE) == wire.pack(STATE, kind="bitmap")


def test_bfloat16_message_byte_by_byte() -> None:
    values = struct.pack("<3H", 0x3F80, 0x0000, 0x4080)
    assert wire.pack(STATE, kind="bitmap", precision="bfloat16") == expected(
        2, bytes([0b010011]), values, precision=1
    )


def test_int8_message_byte_by_byte() -> None:
    values = struct.pack("<f3b", np.float32(4.0) / np.float32(127.0), 32, 0, 127)
    assert wire.pack(STATE, kind="bitmap", precision="int8") == expected(
        2, bytes([0b010011]), values, precision=3
    )


def test_log8_importance_byte_by_byte() -> None:
    # eighths of an octave below 8.0: 8 -> 0, 4 -> 8, 1 -> 24; zero is code 0
    data = wire.pack_importance({"w": np.array([8.0, 4.0, 0.0, 1.0], np.float32)}, "log8")
    head = b"PFLW" + bytes([1, 2, 4, 0]) + Template(("w",), ((4,),), frozenset()).digest
    head += bytes(32) + struct.pack("<II", 1, 0) + struct.pack("<Q", 4 + (4 << 30) + (1 << 60))
    message = head + struct.pack("<f4B", 8.0, 255, 247, 0, 231)
    assert data == message + struct.pack("<Q", xxh64(message))


def test_a_change_says_what_was_removed_and_what_was_added() -> None:
    old = Masks({"a.weight": np.array([[True, False, False], [True, True, False]])})
    data = wire.pack(STATE, known=old, kind="change")
    size, num_removed, length = struct.unpack_from("<III", data, 64)
    parts = data[76 : 76 + length], data[76 + length : 68 + size]
    assert num_removed == 1
    assert decode_subset(parts[0], 3, 1) == [0, 1, 0]  # of the live 0, 3, 4: the second is gone
    assert decode_subset(parts[1], 3, 1) == [1, 0, 0]  # of the pruned 1, 2, 5: the first has come
    assert data == expected(5, data[64 : 68 + size], struct.pack("<3f", 1.0, 0.0, 4.0), base=old.digest)


@pytest.mark.parametrize(("text", "value"), [(b"", 0xEF46DB3751D8E999), (b"abc", 0x44BC2CF5AD770999)])
def test_the_checksum_is_the_published_xxh64(text: bytes, value: int) -> None:
    assert xxh64(text) == value
    assert _coding.checksum(np.frombuffer(text, np.uint8)) == value


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_the_checksum_equals_the_reference(data: bytes) -> None:
    assert _coding.checksum(np.frombuffer(data, np.uint8)) == xxh64(data)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 6000), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_coded_masks_decode_by_the_specification(n: int, density: float, seed: int) -> None:
    mask = (np.random.default_rng(seed).random(n) < density).astype(np.uint8)
    coded = _coding.encode_subset(mask)
    assert decode_subset(coded, n, int(mask.sum())) == mask.tolist()


@pytest.mark.parametrize(
    ("n", "positions"), [(100_000, [99_999]), (100_000, [0, 1, 2]), (1_000_000, [0, 999_999])]
)
def test_gaps_far_beyond_the_mean_are_escaped(n: int, positions: list[int]) -> None:
    mask = np.zeros(n, np.uint8)
    mask[positions] = 1
    coded = _coding.encode_subset(mask)
    assert decode_subset(coded, n, len(positions)) == mask.tolist()
    found = np.empty_like(mask)
    assert _coding.decode_subset(np.frombuffer(coded, np.uint8), len(positions), found)
    assert np.array_equal(found, mask)
