"""Layout of a message: header, one word a layer, patterns, values, checksum (docs/wire-format.md)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from prunefl import _coding
from prunefl.wire.errors import WireError

Bytes: TypeAlias = NDArray[np.uint8]

MAGIC = b"PFLW"
VERSION = 1
HEADER = struct.Struct("<4sBBBB8s16s16sII")
CHECKSUM_BYTES = 8
MAX_WEIGHTS = (1 << 30) - 1
MAX_LAYERS = 1 << 14
BLOCK = 256
"""Values that share a scale in int8."""

CONTENTS = {1: "state", 2: "importance"}
PRECISIONS = {0: "float32", 1: "bfloat16", 2: "float16", 3: "int8", 4: "log8"}
KINDS = {0: "values", 1: "dense", 2: "bitmap", 3: "indices", 4: "coded", 5: "change"}
BASED = ("values", "change")
"""Kinds that refer to masks which the receiver has."""

NO_MASKS = bytes(16)


@dataclass(frozen=True)
class Layer:
    """One layer word: how its pattern is sent, how many weights it has and how many of them live."""

    kind: str
    size: int
    live: int


@dataclass(frozen=True)
class Header:
    """What the first 56 bytes and the layer words say. `rest` counts the values outside the layers."""

    content: str
    precision: str
    template: bytes
    masks: bytes
    base: bytes
    rest: int
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class Message:
    """A message whose structure and checksum are right, cut into its parts (views, not copies)."""

    header: Header
    patterns: tuple[Bytes, ...]
    values: tuple[Bytes, ...]
    rest: Bytes


def code_of(table: dict[int, str], what: str, name: str) -> int:
    """Return the code of a name; an unknown one is the caller's mistake."""
    for code, known in table.items():
        if known == name:
            return code
    raise WireError("argument", f"{what}={name!r}, must be one of {', '.join(table.values())}")


def value_bytes(precision: str, count: int) -> int:
    """Return how many bytes the values of one layer take."""
    if precision == "int8":
        return count + 4 * -(-count // BLOCK)
    return {"float32": 4 * count, "bfloat16": 2 * count, "float16": 2 * count, "log8": 4 + count}[precision]


def build(header: Header, patterns: Sequence[Bytes], values: Sequence[Bytes]) -> bytes:
    """Return the message, sealed with its checksum."""
    head = HEADER.pack(
        MAGIC,
        VERSION,
        code_of(CONTENTS, "content", header.content),
        code_of(PRECISIONS, "precision", header.precision),
        0,
        header.template,
        header.masks,
        header.base,
        len(header.layers),
        header.rest,
    )
    if len(header.layers) > MAX_LAYERS:
        raise WireError("argument", f"{len(header.layers)} layers, the most is {MAX_LAYERS}")
    words = [
        layer.live | layer.size << 30 | code_of(KINDS, "kind", layer.kind) << 60 for layer in header.layers
    ]
    parts = [np.frombuffer(head, np.uint8), np.array(words, "<u8").view(np.uint8), *patterns, *values]
    sealed: bytes = _coding.seal(parts)
    return sealed


def parse(data: bytes) -> Message:
    """Return the parts of a message. No weight is copied; every count was held against the length."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WireError("foreign", f"a message is bytes, not {type(data).__name__}")
    view = np.frombuffer(data, np.uint8)
    header = _read_header(view)
    at = HEADER.size + 8 * len(header.layers)
    patterns, values = [], []
    for layer in header.layers:
        patterns.append(_take(view, at, _pattern_bytes(view, at, layer)))
        at += patterns[-1].size
    for layer in header.layers:
        values.append(_take(view, at, value_bytes(header.precision, layer.live)))
        at += values[-1].size
    rest = _take(view, at, 4 * header.rest)
    if view.size != at + rest.size + CHECKSUM_BYTES:
        raise WireError("corrupted", f"{view.size - at - rest.size - CHECKSUM_BYTES} bytes too many")
    if _stored_checksum(view) != _coding.checksum(view[:-CHECKSUM_BYTES]):
        raise WireError("corrupted", "the checksum does not match")
    _check_layers(header)
    return Message(header, tuple(patterns), tuple(values), rest)


def _stored_checksum(view: Bytes) -> int:
    return int.from_bytes(view[-CHECKSUM_BYTES:].tobytes(), "little")


def _read_header(view: Bytes) -> Header:
    if bytes(view[:4]) != MAGIC[: view.size]:
        raise WireError("foreign", f"begins with {bytes(view[:4])!r}, must begin with {MAGIC!r}")
    if view.size > 4 and view[4] != VERSION:
        raise WireError("version", f"format version {view[4]}, this program reads {VERSION}")
    if view.size < HEADER.size + CHECKSUM_BYTES:
        raise WireError(
            "truncated", f"{view.size} bytes, a message has at least {HEADER.size + CHECKSUM_BYTES}"
        )
    fields = HEADER.unpack(bytes(view[: HEADER.size]))
    _, _, content, precision, reserved, template, masks, base, num_layers, rest = fields
    if content not in CONTENTS or precision not in PRECISIONS or reserved:
        raise WireError("corrupted", f"content {content}, precision {precision}, reserved {reserved}")
    if num_layers > MAX_LAYERS:
        raise WireError("counts", f"{num_layers} layers, the most is {MAX_LAYERS}")
    words = _take(view, HEADER.size, 8 * num_layers)
    layers = tuple(_layer(int(word)) for word in np.frombuffer(words.tobytes(), "<u8"))
    return Header(CONTENTS[content], PRECISIONS[precision], template, masks, base, rest, layers)


def _layer(word: int) -> Layer:
    live, size, kind = word & MAX_WEIGHTS, word >> 30 & MAX_WEIGHTS, word >> 60
    if kind not in KINDS:
        raise WireError("corrupted", f"layer kind {kind}")
    return Layer(KINDS[kind], size, live)


def _check_layers(header: Header) -> None:
    for number, layer in enumerate(header.layers):
        if layer.live > layer.size or (layer.kind == "dense" and layer.live != layer.size):
            raise WireError(
                "counts", f"layer {number} has {layer.live} live of {layer.size} weights ({layer.kind})"
            )


def _pattern_bytes(view: Bytes, at: int, layer: Layer) -> int:
    if layer.kind in ("coded", "change"):
        # these carry their own length, which counts itself
        return 4 + int(_take(view, at, 4).copy().view("<u4")[0])
    return {"values": 0, "dense": 0, "bitmap": -(-layer.size // 8), "indices": 4 * layer.live}[layer.kind]


def _take(view: Bytes, at: int, num_bytes: int) -> Bytes:
    # the checksum is no part of anything, so what reaches into it is cut off
    if at + num_bytes + CHECKSUM_BYTES > view.size:
        raise WireError(
            "truncated", f"{view.size} bytes, at least {at + num_bytes + CHECKSUM_BYTES} announced"
        )
    return view[at : at + num_bytes]
