"""How numbers travel: float32 to the bit, or fewer bits, each with a stated error."""

import numpy as np

from prunefl import _coding
from prunefl.core.state import Array
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes

STATE_PRECISIONS = ("float32", "bfloat16", "float16", "int8")
IMPORTANCE_PRECISIONS = ("float32", "log8")
HALVES = {"bfloat16": _coding.encode_bfloat16, "float16": _coding.encode_float16}


def flat(name: str, array: Array) -> Array:
    """Return the numbers of a float32 array, row-major; they share its memory where they can."""
    if array.dtype != np.float32:
        raise WireError("argument", f"{name} is {array.dtype}, must be float32")
    return np.ascontiguousarray(array).reshape(-1)


def encode(name: str, values: Array, precision: str) -> Bytes:
    """Return the bytes of the values of one layer."""
    if precision == "float32":
        return values.view(np.uint8)
    if precision in HALVES:
        half = HALVES[precision](values)
        if half is None:
            raise WireError(
                "values", f"{name} holds {float(np.abs(values).max()):g}, too large for {precision}"
            )
        return np.frombuffer(half, np.uint8)
    coded = (_coding.encode_int8 if precision == "int8" else _coding.encode_log8)(values)
    if coded is None:
        raise WireError("values", f"{name} holds a negative importance")
    return np.frombuffer(coded, np.uint8)


def decode(name: str, data: Bytes, count: int, precision: str, *, negative: bool = True) -> Array:
    """Return the values, shape (count,). The length of the data has been held against the count.

    Args:
        negative: whether numbers below zero are acceptable.
    """
    values = np.empty(count, np.float32)
    if not _decode_into(values, data, precision, not negative):
        raise WireError(
            "values", f"{name} holds a value that is NaN, infinite" + ("" if negative else " or negative")
        )
    return values


def _decode_into(values: Array, data: Bytes, precision: str, refuse_negative: bool) -> bool:
    if precision == "float16":
        # a signalling NaN is refused below; aarch64 would warn of it here
        with np.errstate(invalid="ignore"):
            values[:] = np.frombuffer(data.tobytes(), "<f2")
        return bool(np.isfinite(values).all())
    if precision == "float32":
        return _coding.decode_float32(data, refuse_negative, values)
    decoder = {"bfloat16": _coding.decode_bfloat16, "int8": _coding.decode_int8, "log8": _coding.decode_log8}
    return decoder[precision](data, values)
