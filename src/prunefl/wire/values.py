"""How numbers travel: float32 to the bit, or fewer bits, each with a stated error."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunefl import _coding
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes

HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
STATE_PRECISIONS = ("float32", "bfloat16", "float16", "int8")
IMPORTANCE_PRECISIONS = ("float32", "log8")


def flat(name: str, tensor: Tensor) -> NDArray[np.float32]:
    """Return the numbers of a float32 tensor, row-major, as an array that shares its memory where it can."""
    if tensor.dtype != torch.float32:
        raise WireError("argument", f"{name} is {tensor.dtype}, must be torch.float32")
    values: NDArray[np.float32] = tensor.detach().contiguous().reshape(-1).numpy()
    return values


def encode(name: str, values: NDArray[np.float32], precision: str) -> Bytes:
    """Return the bytes of the values of one layer."""
    if precision == "float32":
        return values.view(np.uint8)
    if precision in HALVES:
        return _encode_half(name, values, precision)
    coded = (_coding.encode_int8 if precision == "int8" else _coding.encode_log8)(values)
    if coded is None:
        raise WireError("values", f"{name} holds a negative importance")
    return np.frombuffer(coded, np.uint8)


def decode(name: str, data: Bytes, count: int, precision: str, *, negative: bool = True) -> Tensor:
    """Return the values, shape (count,). The length of the data has been held against the count.

    Args:
        negative: whether numbers below zero are acceptable.
    """
    values = torch.empty(count, dtype=torch.float32)
    if not _decode_into(values, data, precision, not negative):
        raise WireError(
            "values", f"{name} holds a value that is NaN, infinite" + ("" if negative else " or negative")
        )
    return values


def _decode_into(values: Tensor, data: Bytes, precision: str, refuse_negative: bool) -> bool:
    if precision in HALVES:
        half = torch.from_numpy(np.frombuffer(data.tobytes(), "<i2").copy()).view(HALVES[precision])
        values.copy_(half)
        return bool(torch.isfinite(values).all())
    if precision == "float32":
        return bool(_coding.decode_float32(data, refuse_negative, values.numpy()))
    return bool((_coding.decode_int8 if precision == "int8" else _coding.decode_log8)(data, values.numpy()))


def _encode_half(name: str, values: NDArray[np.float32], precision: str) -> Bytes:
    exact = torch.from_numpy(values)
    half = exact.to(HALVES[precision])
    if bool((half.isinf() & ~exact.isinf()).any()):
        raise WireError("values", f"{name} holds {float(exact.abs().max()):g}, too large for {precision}")
    return half.view(torch.int16).numpy().view(np.uint8)
