"""Between a tensor in its own shape and its live values, row-major: the order in which they travel."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunefl import _coding
from prunefl.core.masks import Masks
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes
from prunefl.wire.values import flat

State = Mapping[str, Tensor]
"""Name -> float32 tensor; one with a mask is in its own shape, or holds its live values, shape (live,)."""


def bits_of(mask: Tensor) -> Bytes:
    """Return the mask as flat bytes, 0 or 1."""
    if mask.dtype != torch.bool:
        raise WireError("argument", f"a mask is {mask.dtype}, must be torch.bool")
    bits: Bytes = mask.contiguous().reshape(-1).numpy().view(np.uint8)
    return bits


def live_values(name: str, tensor: Tensor, mask: Tensor, live: int | None = None) -> NDArray[np.float32]:
    """Return the live values, shape (live,), of a tensor in either form; `live` saves counting them again."""
    given, bits = flat(name, tensor), bits_of(mask)
    live = _coding.count(bits) if live is None else live
    # a 1-D weight of which all lives is in both forms, and both readings agree
    if tensor.dim() == 1 and tensor.numel() == live:
        return given
    if tensor.shape != mask.shape:
        shapes = f"{tuple(mask.shape)} or ({live},)"
        raise WireError("argument", f"{name} has shape {tuple(tensor.shape)}, must be {shapes}")
    if live == mask.numel():
        return given
    picked = np.empty(live, np.float32)
    _coding.gather(given, bits, picked)
    return picked


def dense(state: State, masks: Masks) -> dict[str, Tensor]:
    """Return the state with every tensor in its own shape, and zeros at pruned positions."""
    spread = {name: _spread(name, state[name], mask) for name, mask in masks.items()}
    return {name: spread.get(name, tensor) for name, tensor in state.items()}


def same(one: Masks, other: Masks | None) -> bool:
    """Return whether two sets of masks are equal; at once when they are the same objects."""
    if other is None or one is other:
        return one is other
    return list(one) == list(other) and all(_equal(one[name], other[name]) for name in one)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and np.array_equal(bits_of(one), bits_of(other)))


def _spread(name: str, tensor: Tensor, mask: Tensor) -> Tensor:
    whole = torch.zeros(mask.shape, dtype=torch.float32)
    _coding.scatter(live_values(name, tensor, mask), bits_of(mask), whole.reshape(-1).numpy())
    return whole
