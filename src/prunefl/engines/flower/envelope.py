"""One envelope = one message between server and worker, as bytes that are checked before they are believed."""

import json
import re
import struct
from dataclasses import dataclass, field
from typing import Any

MAGIC = b"PFL1"
MAX_HEAD = 1 << 20
MAX_PARTS = 8
_SIZES = struct.Struct("<4sII")
_SIZE = struct.Struct("<Q")


class EnvelopeError(ValueError):
    """Bytes that are not an envelope."""


_PATH = re.compile(r"(?<![\w.:/])(?:~|/)[^\s'\",;:)`]*/[^\s'\",;:)`]*")


def without_paths(text: str) -> str:
    """Return words for somebody else's eyes: where things are on this machine is left out."""
    return _PATH.sub("...", text)


def one_line(text: str) -> str:
    """Return what somebody else wrote so that it can be shown: one short line without control characters."""
    return "".join(c for c in " ".join(text[:2000].split()) if c.isprintable())[:300]


@dataclass(frozen=True)
class Envelope:
    """A kind, a few plain values and up to eight byte strings."""

    kind: str
    values: dict[str, Any] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()


def seal(envelope: Envelope) -> bytes:
    """Return the envelope as bytes: magic, sizes, a JSON head, the parts."""
    head = json.dumps({"kind": envelope.kind, "values": envelope.values}).encode()
    if len(head) > MAX_HEAD or len(envelope.parts) > MAX_PARTS:
        raise EnvelopeError(
            f"{envelope.kind}: head of {len(head)} bytes with {len(envelope.parts)} parts is too large"
        )
    sizes = b"".join(_SIZE.pack(len(part)) for part in envelope.parts)
    return b"".join([_SIZES.pack(MAGIC, len(head), len(envelope.parts)), sizes, head, *envelope.parts])


def unseal(data: bytes) -> Envelope:
    """Return the envelope that the bytes hold; anything else is a EnvelopeError."""
    if len(data) < _SIZES.size:
        raise EnvelopeError(f"{len(data)} bytes, too few for an envelope")
    magic, head_size, count = _SIZES.unpack_from(data)
    if magic != MAGIC or head_size > MAX_HEAD or count > MAX_PARTS:
        raise EnvelopeError("not an envelope")
    start = _SIZES.size + count * _SIZE.size
    if len(data) < start + head_size:
        raise EnvelopeError("cut off")
    sizes = [_SIZE.unpack_from(data, _SIZES.size + index * _SIZE.size)[0] for index in range(count)]
    if start + head_size + sum(sizes) != len(data):
        raise EnvelopeError(f"{len(data)} bytes, but its head announces {start + head_size + sum(sizes)}")
    return _read_head(data, start, head_size, sizes)


def _read_head(data: bytes, start: int, head_size: int, sizes: list[int]) -> Envelope:
    try:
        head = json.loads(data[start : start + head_size])
        kind, values = head["kind"], head["values"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EnvelopeError("its head is not readable") from None
    if not isinstance(kind, str) or not isinstance(values, dict):
        raise EnvelopeError("its head is not readable")
    parts, at = [], start + head_size
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return Envelope(kind, values, tuple(parts))
