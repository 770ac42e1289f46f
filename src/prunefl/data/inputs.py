"""From tensors, arrays and numbers of any kind to the arrays that a network is trained on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunefl.core.randomness import Ints
from prunefl.data.transform import as_float
from prunefl.system.errors import PruneFLError

Inputs = NDArray[Any] | tuple[NDArray[Any], ...] | Mapping[str, NDArray[Any]]
"""One array (B, ...), several, or several by name: float32, or int64 for tokens."""


def parts_of(inputs: Inputs) -> list[NDArray[Any]]:
    """Return the arrays that inputs are made of."""
    if isinstance(inputs, Mapping):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, tuple) else [inputs]


def stacked(items: Sequence[Any]) -> Inputs:
    """Return the inputs of several samples as those of a batch, part by part."""
    first = items[0]
    if isinstance(first, Mapping):
        return {name: as_input(np.stack([item[name] for item in items])) for name in first}
    if isinstance(first, tuple):
        return tuple(as_input(np.stack(parts)) for parts in zip(*items, strict=True))
    return as_input(np.stack(items))


def as_array(values: Any) -> NDArray[Any]:
    """Return what a tensor, array or number holds; a tensor's memory is shared where numpy can read it."""
    try:
        return np.asarray(values)
    # a tensor with gradients, on another device, or of bfloat16
    except (TypeError, RuntimeError):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.is_floating_point() else values)


def as_input(values: NDArray[Any]) -> NDArray[Any]:
    """Return tokens, whole numbers that are no pixels, as int64; all else as float32."""
    is_tokens = values.dtype.kind == "i" and values.dtype.itemsize > 1
    return values.astype(np.int64, copy=False) if is_tokens else as_float(values)


def as_target(values: Any) -> NDArray[Any]:
    """Return whole numbers as int64, others as float32: which of them a loss takes is checked when it is known."""
    array = as_array(values)
    if array.dtype.kind == "f" and not np.array_equal(array, array.round()):
        return as_float(array)
    return array.astype(np.int64, copy=False)


def as_ints(values: Any) -> Ints:
    """Return int64; a number with a fraction is no label."""
    array = as_array(values)
    if array.dtype.kind == "f" and not np.array_equal(array, array.round()):
        raise PruneFLError("labels are not whole numbers, must be classes from 0 on")
    return array.astype(np.int64, copy=False)
