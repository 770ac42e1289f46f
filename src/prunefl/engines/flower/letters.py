"""One letter = one message between server and worker, as bytes that are checked before they are believed."""

import json
import struct
from dataclasses import dataclass, field
from typing import Any

MAGIC = b"PFL1"
MAX_HEAD = 1 << 20
MAX_PARTS = 8
_SIZES = struct.Struct("<4sII")
_SIZE = struct.Struct("<Q")


class LetterError(ValueError):
    """Bytes that are not a letter."""


def one_line(text: str) -> str:
    """Return what somebody else wrote so that it can be shown: one short line without control characters."""
    return "".join(c for c in " ".join(text[:2000].split()) if c.isprintable())[:300]


@dataclass(frozen=True)
class Letter:
    """A kind, a few plain values and up to eight byte strings."""

    kind: str
    values: dict[str, Any] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()


def seal(letter: Letter) -> bytes:
    """Return the letter as bytes: magic, sizes, a JSON head, the parts."""
    head = json.dumps({"kind": letter.kind, "values": letter.values}).encode()
    if len(head) > MAX_HEAD or len(letter.parts) > MAX_PARTS:
        raise LetterError(
            f"{letter.kind}: head of {len(head)} bytes with {len(letter.parts)} parts is too large"
        )
    sizes = b"".join(_SIZE.pack(len(part)) for part in letter.parts)
    return b"".join([_SIZES.pack(MAGIC, len(head), len(letter.parts)), sizes, head, *letter.parts])


def unseal(data: bytes) -> Letter:
    """Return the letter that the bytes hold; anything else is a LetterError."""
    if len(data) < _SIZES.size:
        raise LetterError(f"{len(data)} bytes, too few for a letter")
    magic, head_size, count = _SIZES.unpack_from(data)
    if magic != MAGIC or head_size > MAX_HEAD or count > MAX_PARTS:
        raise LetterError("not a letter")
    start = _SIZES.size + count * _SIZE.size
    if len(data) < start + head_size:
        raise LetterError("cut off")
    sizes = [_SIZE.unpack_from(data, _SIZES.size + index * _SIZE.size)[0] for index in range(count)]
    if start + head_size + sum(sizes) != len(data):
        raise LetterError(f"{len(data)} bytes, but its head announces {start + head_size + sum(sizes)}")
    return _opened(data, start, head_size, sizes)


def _opened(data: bytes, start: int, head_size: int, sizes: list[int]) -> Letter:
    try:
        head = json.loads(data[start : start + head_size])
        kind, values = head["kind"], head["values"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LetterError("its head is not readable") from None
    if not isinstance(kind, str) or not isinstance(values, dict):
        raise LetterError("its head is not readable")
    parts, at = [], start + head_size
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return Letter(kind, values, tuple(parts))
