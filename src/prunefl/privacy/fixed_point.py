"""Live values as whole numbers modulo 2^32 or 2^16: what is added up under masks, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = NDArray[np.float32] | Floats
WIDE, NARROW = 32, 16


@dataclass(frozen=True)
class Segment:
    """A stretch of a vector that has one range.

    Attributes:
        size: how many values.
        range: the largest magnitude that is sent; what is beyond it is sent as it.
        bits: 32, or 16 where wire.precision asks for less than float32.
    """

    name: str
    size: int
    range: float
    bits: int = WIDE

    def levels(self, clients: int) -> int:
        """Return what a value of `range` becomes: so many clients of it still add up without an overflow."""
        return ((1 << self.bits - 1) - 1) // clients

    def step(self, clients: int) -> float:
        """Return by how much two neighbouring values differ."""
        return self.range / self.levels(clients)


@dataclass(frozen=True)
class Layout:
    """What a vector holds, and for how many clients its sum has room."""

    segments: tuple[Segment, ...]
    clients: int

    @property
    def words(self) -> tuple[int, int]:
        """How many numbers of 32 and of 16 bits."""
        wide = sum(one.size for one in self.segments if one.bits == WIDE)
        return wide, sum(one.size for one in self.segments) - wide

    @property
    def num_bytes(self) -> int:
        """Of a vector."""
        wide, narrow = self.words
        return 4 * wide + 2 * narrow


@dataclass
class Words:
    """A vector as numbers of 32 and of 16 bits, which are added to without a carry between them."""

    wide: NDArray[np.uint32]
    narrow: NDArray[np.uint16]

    @classmethod
    def zeros(cls, layout: Layout) -> "Words":
        """Return zeros for a vector."""
        wide, narrow = layout.words
        return cls(np.zeros(wide, np.uint32), np.zeros(narrow, np.uint16))

    @classmethod
    def parse(cls, data: bytes, layout: Layout) -> "Words":
        """Return what `tobytes` wrote; the length was checked."""
        wide, _ = layout.words
        return cls(
            np.frombuffer(data[: 4 * wide], "<u4").astype(np.uint32),
            np.frombuffer(data[4 * wide :], "<u2").astype(np.uint16),
        )

    def tobytes(self) -> bytes:
        """Return the numbers as bytes, little-endian, the wide ones first."""
        wide = self.wide.astype("<u4", copy=False).tobytes()
        return wide + self.narrow.astype("<u2", copy=False).tobytes() if self.narrow.size else wide

    def add(self, other: "Words") -> None:
        """Add in place."""
        self.wide += other.wide
        self.narrow += other.narrow


def count_beyond(values: Mapping[str, Values], layout: Layout) -> int:
    """Return how many values are beyond their range, and will be sent as it."""
    return sum(int(np.count_nonzero(np.abs(values[one.name]) > one.range)) for one in layout.segments)


def encode(values: Mapping[str, Values], weight: float, layout: Layout) -> Words:
    """Return weight times each value as whole numbers; what has to be added to values is added before this.

    Args:
        values: of each segment by its name.
        weight: between 0 and 1.
    """
    parts: dict[int, list[NDArray[np.int32]]] = {WIDE: [], NARROW: []}
    for segment in layout.segments:
        flat = np.asarray(values[segment.name], np.float64).reshape(-1)
        held = np.clip(flat, -segment.range, segment.range)
        held *= weight / segment.step(layout.clients)
        parts[segment.bits].append(np.rint(held, out=held).astype(np.int32))
    empty = [np.zeros(0, np.int32)]
    wide, narrow = np.concatenate(parts[WIDE] or empty), np.concatenate(parts[NARROW] or empty)
    return Words(wide.view(np.uint32), narrow.astype(np.int16).view(np.uint16))


def decode(total: Words, layout: Layout) -> dict[str, Floats]:
    """Return the sum of all clients' weighted values, by segment, shape (size,)."""
    found, at = {}, {WIDE: 0, NARROW: 0}
    wide, narrow = total.wide.view(np.int32), total.narrow.view(np.int16)
    for segment in layout.segments:
        part = slice(at[segment.bits], at[segment.bits] + segment.size)
        at[segment.bits] = part.stop
        whole = (wide[part] if segment.bits == WIDE else narrow[part]).astype(np.float64)
        found[segment.name] = whole * segment.step(layout.clients)
    return found


def largest_error(segment: Segment, clients: int, summed: int) -> float:
    """Return how far the decoded sum of so many clients can be from the true one, if nothing was clipped."""
    return 0.5 * segment.step(clients) * summed


def describe(segments: Sequence[Segment]) -> list[list[float | int | str]]:
    """Return segments as JSON."""
    return [[one.name, one.size, one.range, one.bits] for one in segments]
