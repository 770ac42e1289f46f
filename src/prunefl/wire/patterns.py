"""How the pattern of one layer travels: not at all, as a bitmap, as indices, coded, or as a change."""

import math
import struct

import numpy as np

from prunefl import _coding
from prunefl.core.masks import Shape
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes, Layer

EMPTY: Bytes = np.zeros(0, np.uint8)
MAX_INDEX = 1 << 16


def encode(kind: str, mask: Bytes, shape: Shape, base: Bytes | None) -> Bytes:
    """Return the bytes of a flat 0/1 mask in the given kind; `base` is the mask that the receiver has.

    An impossible kind (dense when weights are pruned, indices beyond 16 bits) is a WireError.
    """
    live = _coding.count(mask)
    if kind == "dense" and live != mask.size:
        raise WireError("argument", f"kind='dense', but only {live} of {mask.size} weights live")
    if kind == "values" and (base is None or not np.array_equal(base, mask)):
        raise WireError("argument", "kind='values', but the receiver does not have this mask")
    if kind == "indices" and not indexable(shape):
        raise WireError(
            "argument", f"kind='indices', but {matrix(shape)} has more than 65536 rows or columns"
        )
    if kind == "change" and base is None:
        raise WireError("argument", "kind='change', but no mask is known to the receiver")
    if kind == "bitmap":
        return np.packbits(mask, bitorder="little")
    if kind == "indices":
        return _encode_indices(mask, shape)
    if kind == "coded":
        return _with_length(_coding.encode_subset(mask))
    return _encode_change(mask, base) if kind == "change" and base is not None else EMPTY


def encode_smallest(mask: Bytes, shape: Shape, base: Bytes | None) -> tuple[str, Bytes]:
    """Return the kind that takes the fewest bytes, and these bytes."""
    live = _coding.count(mask)
    if live == mask.size:
        return "dense", EMPTY
    if base is not None and np.array_equal(base, mask):
        return "values", EMPTY
    tried = {"change": _encode_change(mask, base)} if base is not None else {}
    # a coded mask pays log2(1/d) for each live weight even if they all lie together, which is half of the entropy
    if base is None or tried["change"].size > 0.49 * entropy_bytes(mask.size, live):
        tried["coded"] = encode("coded", mask, shape, base)
    sizes = {kind: coded.size for kind, coded in tried.items()} | {"bitmap": -(-mask.size // 8)}
    if indexable(shape):
        sizes["indices"] = 4 * live
    kind = min(sizes, key=sizes.__getitem__)
    return kind, tried[kind] if kind in tried else encode(kind, mask, shape, base)


def decode(layer: Layer, data: Bytes, shape: Shape, base: Bytes | None) -> Bytes:
    """Return the flat 0/1 mask that is sent, with exactly `layer.live` ones; its size is the template's."""
    if layer.kind == "dense":
        return np.ones(layer.size, np.uint8)
    if layer.kind == "change":
        assert base is not None, "unpacking has looked it up"
        mask = _decode_change(layer, data[4:], base)
    elif layer.kind == "bitmap":
        mask = _decode_bitmap(layer, data)
    elif layer.kind == "indices":
        mask = _decode_indices(layer, data, shape)
    else:
        mask = _subset(data[4:], layer.size, layer.live)
    if _coding.count(mask) != layer.live:
        raise WireError(
            "counts", f"the pattern has {_coding.count(mask)} live weights, {layer.live} announced"
        )
    return mask


def entropy_bytes(size: int, live: int) -> float:
    """Return N H(d) / 8: the least that the positions of the live weights cost, if all were equally likely."""
    if live in (0, size):
        return 0.0
    density = live / size
    return -size * (density * math.log2(density) + (1 - density) * math.log2(1 - density)) / 8


def matrix(shape: Shape) -> tuple[int, int]:
    """Return rows and columns: (out, in * height * width) for a convolution."""
    return (shape[0], math.prod(shape[1:])) if shape else (1, 1)


def indexable(shape: Shape) -> bool:
    """Return whether 16 bits are enough for each row and column."""
    return max(matrix(shape)) <= MAX_INDEX


def _encode_indices(mask: Bytes, shape: Shape) -> Bytes:
    rows, columns = np.divmod(np.flatnonzero(mask), max(1, matrix(shape)[1]))
    return np.stack([rows, columns], axis=1).astype("<u2").reshape(-1).view(np.uint8)


def _decode_indices(layer: Layer, data: Bytes, shape: Shape) -> Bytes:
    rows, columns = matrix(shape)
    pairs = np.frombuffer(data.tobytes(), "<u2").reshape(-1, 2).astype(np.int64)
    at = pairs[:, 0] * columns + pairs[:, 1]
    if not indexable(shape) or (pairs >= (rows, columns)).any() or (np.diff(at) <= 0).any():
        raise WireError("corrupted", f"indices outside {rows} x {columns} or out of order")
    mask = np.zeros(layer.size, np.uint8)
    mask[at] = 1
    return mask


def _decode_bitmap(layer: Layer, data: Bytes) -> Bytes:
    bits = np.unpackbits(data, bitorder="little")
    if bits[layer.size :].any():
        raise WireError("corrupted", "bits beyond the end of a bitmap")
    return bits[: layer.size]


def _with_length(coded: bytes) -> Bytes:
    return np.frombuffer(struct.pack("<I", len(coded)) + coded, np.uint8)


def _subset(data: Bytes, size: int, marked: int) -> Bytes:
    mask = np.empty(size, np.uint8)
    if not _coding.decode_subset(data, marked, mask):
        raise WireError("corrupted", f"not a coded pattern of {marked} in {size} weights")
    return mask


def _encode_change(mask: Bytes, base: Bytes) -> Bytes:
    num_removed, removed, added = _coding.encode_change(mask, base)
    return _with_length(struct.pack("<II", num_removed, len(removed)) + removed + added)


def _decode_change(layer: Layer, data: Bytes, base: Bytes) -> Bytes:
    if data.size < 8:
        raise WireError("corrupted", f"a change of {data.size} bytes")
    num_removed, length = struct.unpack("<II", data[:8].tobytes())
    num_added = layer.live - _coding.count(base) + num_removed
    if num_added < 0 or length > data.size - 8:
        raise WireError("counts", f"{num_removed} weights removed to leave {layer.live}, in {length} bytes")
    mask = np.empty(layer.size, np.uint8)
    if not _coding.decode_change(
        data[8 : 8 + length], num_removed, data[8 + length :], num_added, base, mask
    ):
        raise WireError("corrupted", f"not a change of {num_removed} and {num_added} weights")
    return mask
