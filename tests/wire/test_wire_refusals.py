"""Bad input is refused by one exception that names what is wrong, and nothing of it is used."""

import struct
import tracemalloc

import numpy as np
import pytest
from reference import xxh64
from wire_models import TEMPLATE, flat_state, random_masks, random_state

from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState

STATE = random_state(0.4)
MASKS = STATE.masks
KNOWN = {MASKS.digest: MASKS}
WORDS = 56  # where the layer words begin
NUM_LAYERS = 3


def sealed(data: bytes) -> bytes:
    """Return the message with a right checksum, as somebody with bad intent would send it."""
    return data[:-8] + struct.pack("<Q", xxh64(data[:-8]))


def patched(data: bytes, at: int, part: bytes) -> bytes:
    return sealed(data[:at] + part + data[at + len(part) :])


def refusal(data: bytes, template: Template = TEMPLATE) -> wire.WireError:
    with pytest.raises(wire.WireError) as caught:
        wire.unpack(data, template, KNOWN)
    return caught.value


def with_value(name: str, value: float) -> SparseState:
    """Return the state with another value everywhere in one array."""
    return SparseState({**STATE.values, name: np.full_like(STATE.values[name], value)}, MASKS)


def ones() -> dict[str, np.ndarray]:
    """Return importance of all parameters."""
    return {name: np.ones(shape, np.float32) for name, shape in TEMPLATE.parameters.items()}


def word(kind: int, size: int, live: int) -> bytes:
    return struct.pack("<Q", kind << 60 | size << 30 | live)


@pytest.mark.parametrize("kind", ["bitmap", "indices", "coded", "values", "change"])
def test_every_truncation_is_refused(kind: str) -> None:
    data = wire.pack(STATE, known=MASKS, kind=kind)
    reasons = {refusal(data[:length]).reason for length in range(len(data))}
    assert reasons == {"truncated"}


def test_trailing_bytes_are_refused() -> None:
    assert "2 bytes too many" in str(refusal(wire.pack(STATE) + b"ab"))


def test_every_flipped_bit_is_refused() -> None:
    data = wire.pack(STATE, kind="coded")
    for at in range(len(data)):
        refusal(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])


def test_a_flipped_value_is_named_corrupted() -> None:
    data = bytearray(wire.pack(STATE))
    data[-20] ^= 1
    assert refusal(bytes(data)).reason == "corrupted"


@pytest.mark.parametrize("data", [b"\x80\x04\x95 a pickle, perhaps", b"GET / HTTP/1.1" * 9, b"PK\x03\x04"])
def test_foreign_bytes_are_refused(data: bytes) -> None:
    assert refusal(data).reason == "foreign"


def test_nothing_at_all_is_truncated() -> None:
    assert refusal(b"").reason == "truncated"


def test_what_is_not_bytes_is_foreign() -> None:
    assert refusal("PFLW").reason == "foreign"  # type: ignore[arg-type]


def test_a_newer_version_is_named() -> None:
    error = refusal(patched(wire.pack(STATE), 4, b"\x02"))
    assert error.reason == "version"
    assert "version 2, this program reads 1" in str(error)


@pytest.mark.parametrize("at", [5, 6, 7])
def test_codes_that_do_not_exist_are_refused(at: int) -> None:
    assert refusal(patched(wire.pack(STATE), at, b"\x09")).reason == "corrupted"


def test_importance_is_not_taken_for_a_state_nor_the_reverse() -> None:
    importance = wire.pack_importance(ones())
    assert "holds importance, must hold state" in str(refusal(importance))
    with pytest.raises(wire.WireError, match="holds state, must hold importance"):
        wire.unpack_importance(wire.pack(STATE), TEMPLATE)


@pytest.mark.parametrize("change", ["renamed", "reshaped", "fewer"])
def test_another_model_is_refused(change: str) -> None:
    names, shapes = list(TEMPLATE.names), list(TEMPLATE.shapes)
    if change == "renamed":
        names[1] = "other"
    elif change == "reshaped":
        shapes[0] = (5, 3, 2, 3)  # of the same size
    else:
        del names[1], shapes[1]
    other = Template(tuple(names), tuple(shapes), TEMPLATE.prunable)
    assert refusal(wire.pack(STATE), other).reason == "model"


def test_a_model_that_prunes_other_layers_is_refused() -> None:
    other = Template(TEMPLATE.names, TEMPLATE.shapes, TEMPLATE.prunable - {"4.weight"})
    assert refusal(wire.pack(STATE), other).reason == "model"


def test_importance_of_another_model_is_refused() -> None:
    with pytest.raises(wire.WireError, match="model"):
        wire.unpack_importance(wire.pack_importance({"x": np.ones(2, np.float32)}), TEMPLATE)


def test_masks_that_are_not_known_are_named_by_their_digest() -> None:
    other = random_state(0.4, seed=9)
    error = refusal(wire.pack(other, known=other.masks))
    assert error.reason == "digest"
    assert other.masks.digest.hex() in str(error)


def test_a_pattern_with_another_digest_is_refused() -> None:
    data = wire.pack(STATE, kind="bitmap")
    bitmap = WORDS + 8 * NUM_LAYERS
    # one weight dies and its neighbour comes to life: every count is still right
    first = data[bitmap]
    low = next(bit for bit in range(7) if (first >> bit & 1) != (first >> bit + 1 & 1))
    assert refusal(patched(data, bitmap, bytes([first ^ 3 << low]))).reason == "digest"


@pytest.mark.parametrize("live", [2**30 - 1, 91, 2**29])
def test_counts_beyond_the_layer_are_refused(live: int) -> None:
    data = wire.pack(STATE, kind="bitmap")
    assert refusal(patched(data, WORDS, word(2, 90, live))).reason == "truncated"


def test_a_count_that_only_the_length_contradicts_is_refused() -> None:
    data = wire.pack(STATE, kind="bitmap")
    assert refusal(patched(data, WORDS, word(2, 90, 90))).reason == "truncated"


def test_more_live_weights_than_weights_are_refused_even_at_the_right_length() -> None:
    data = patched(wire.pack(flat_state(np.ones(2, np.float32), np.ones(2, np.bool_))), WORDS, word(1, 1, 2))
    assert refusal(data, Template(("w",), ((2,),), frozenset({"w"}))).reason == "counts"


def test_values_only_counts_that_are_not_those_of_the_known_masks_are_refused() -> None:
    data = wire.pack(STATE, known=MASKS)
    first, second = MASKS.counts["0.weight"], MASKS.counts["3.weight"]
    # one value more for a layer and one less for the next: the length is still right
    moved = word(0, 90, first + 1) + word(0, 140, second - 1)
    assert "known mask has" in str(refusal(patched(data, WORDS, moved)))


@pytest.mark.parametrize(
    ("num_layers", "reason"), [(0, "corrupted"), (2, "corrupted"), (4, "corrupted"), (2**32 - 1, "counts")]
)
def test_a_wrong_number_of_layers_is_refused(num_layers: int, reason: str) -> None:
    assert refusal(patched(wire.pack(STATE), 48, struct.pack("<I", num_layers))).reason == reason


@pytest.mark.parametrize(("rest", "reason"), [(0, "corrupted"), (1, "corrupted"), (2**32 - 1, "truncated")])
def test_a_wrong_number_of_other_values_is_refused(rest: int, reason: str) -> None:
    assert refusal(patched(wire.pack(STATE), 52, struct.pack("<I", rest))).reason == reason


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16", "int8"])
def test_values_that_are_not_finite_are_refused_by_name(bad: float, precision: str) -> None:
    error = refusal(wire.pack(with_value("3.weight", bad), precision=precision))
    assert error.reason == "values"
    assert "3.weight" in str(error)


def test_a_statistic_that_is_not_finite_is_refused() -> None:
    assert "1.running_var" in str(refusal(wire.pack(with_value("1.running_var", float("nan")))))


@pytest.mark.parametrize("precision", ["float32", "log8"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_importance_that_is_not_finite_is_refused(bad: float, precision: str) -> None:
    importance = ones()
    importance["3.bias"][2] = bad
    with pytest.raises(wire.WireError, match=r"3\.bias"):
        wire.unpack_importance(wire.pack_importance(importance, precision), TEMPLATE)


def test_negative_importance_is_refused() -> None:
    importance = ones()
    importance["3.bias"][2] = -1.0
    with pytest.raises(wire.WireError, match=r"3\.bias"):
        wire.unpack_importance(wire.pack_importance(importance), TEMPLATE)
    with pytest.raises(wire.WireError, match=r"3\.bias"):
        wire.pack_importance(importance, "log8")


def test_a_gradient_may_be_negative_but_not_infinite() -> None:
    gradient = {name: -1.5 * one for name, one in ones().items()}
    found = wire.unpack_importance(wire.pack_importance(gradient), TEMPLATE, signed=True)
    assert all(np.array_equal(found[name], gradient[name]) for name in gradient)
    gradient["3.bias"][2] = float("-inf")
    with pytest.raises(wire.WireError, match=r"3\.bias"):
        wire.unpack_importance(wire.pack_importance(gradient), TEMPLATE, signed=True)


def test_indices_out_of_order_or_range_are_refused() -> None:
    data, start = wire.pack(STATE, kind="indices"), WORDS + 8 * NUM_LAYERS
    pairs = data[start : start + 8]
    assert refusal(patched(data, start, pairs[4:] + pairs[:4])).reason == "corrupted"
    assert refusal(patched(data, start, pairs[:4] + pairs[:4])).reason == "corrupted"
    assert refusal(patched(data, start, struct.pack("<HH", 0, 18))).reason == "corrupted"


def test_bits_beyond_the_end_of_a_bitmap_are_refused() -> None:
    data, last = wire.pack(STATE, kind="bitmap"), WORDS + 8 * NUM_LAYERS + 90 // 8
    assert "beyond the end" in str(refusal(patched(data, last, bytes([data[last] | 0x80]))))


def test_every_damaged_byte_of_a_coded_pattern_is_refused_even_under_a_right_checksum() -> None:
    for known, kind in ((None, "coded"), (MASKS, "change")):
        data = wire.pack(random_state(0.3, seed=4), known=known, kind=kind)
        start = WORDS + 8 * NUM_LAYERS
        end = start + sum(part.pattern_bytes for part in wire.describe(data).layers)
        for at in range(start, end):
            for flip in (1, 0x80, 0xFF):
                refusal(patched(data, at, bytes([data[at] ^ flip])))


def test_a_small_message_that_announces_much_takes_no_memory() -> None:
    huge = (
        b"PFLW\x01\x01\0\0" + bytes(40) + struct.pack("<II", 1, 0) + word(2, 2**30 - 1, 2**30 - 1) + bytes(8)
    )
    tracemalloc.start()
    assert refusal(sealed(huge)).reason == "truncated"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"precision": "int4"}, "precision='int4'"),
        ({"precision": "log8"}, "precision='log8'"),
        ({"kind": "pickle"}, "kind='pickle'"),
        ({"kind": "dense"}, "kind='dense'"),
        ({"kind": "change"}, "kind='change'"),
        ({"kind": "values"}, "kind='values'"),
        ({"kind": "values", "known": random_masks(0.4, seed=9)}, "kind='values'"),
        ({"known": Masks({})}, "known masks"),
        ({"state": SparseState({**STATE.values, "0.bias": np.zeros(5)}, MASKS)}, "0.bias is float64"),
        ({"precision": "float16", "state": with_value("3.weight", 7e4)}, "too large for float16"),
    ],
)
def test_what_cannot_be_packed_is_named(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(wire.WireError, match=text):
        wire.pack(**{"state": STATE, **arguments})  # type: ignore[arg-type]


def test_a_read_only_message_is_enough() -> None:
    data = np.frombuffer(wire.pack(STATE), np.uint8)
    assert list(wire.unpack(data.data, TEMPLATE).values) == list(STATE.values)  # type: ignore[arg-type]


def test_a_message_of_many_layers_is_refused_before_they_are_read() -> None:
    count = 1_000_000
    head = wire.pack(STATE)[:WORDS]
    at = WORDS - 8
    assert struct.unpack_from("<I", head, at)[0] == NUM_LAYERS
    data = head[:at] + struct.pack("<I", count) + head[at + 4 :] + bytes(8 * count) + bytes(8)
    tracemalloc.start()
    error = refusal(sealed(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.reason == "counts"
    assert peak < 4 * len(data)
