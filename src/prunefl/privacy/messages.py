"""What server and clients agree on for one sum, and their messages as bytes, checked before they are believed."""

import hashlib
import itertools
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import NARROW, WIDE, Layout, Segment, describe
from prunefl.privacy.noise_shares import Noising

_SIZE = struct.Struct("<I")
_ENTRY = struct.Struct("<II")
_STAMP = struct.Struct("<Q")


def _canonical(table: Mapping[str, Any]) -> bytes:
    """Return JSON of which there is one form, so that all who mean the same have the same digest."""
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Plan:
    """What a sum is for and who is asked, said before anything is masked.

    Attributes:
        run: the run's name.
        epoch: whose channel keys serve; a client has one for each.
        serial: of this sum, larger than of all before.
        purpose: what it is the sum of, such as "round 7".
        cohort: all clients that are asked, in ascending order.
    """

    run: str
    epoch: int
    serial: int
    purpose: str
    cohort: tuple[int, ...]

    def pack(self) -> bytes:
        """Return it as JSON."""
        return _canonical(
            {
                "run": self.run,
                "epoch": self.epoch,
                "serial": self.serial,
                "purpose": self.purpose,
                "cohort": self.cohort,
            }
        )

    @property
    def digest(self) -> bytes:
        """What the graph is drawn by."""
        return hashlib.sha256(self.pack()).digest()


@dataclass(frozen=True)
class Terms:
    """How a vector is made, said when it is known who takes part.

    Attributes:
        present: who has sent shares: with these one masks.
        cap: samples that count fully; a client of n has the weight min(n, cap) / cap.
        segments: what the vector holds.
        noising: how much noise each adds to its vector, with privacy.noise.
    """

    present: tuple[int, ...]
    cap: int
    segments: tuple[Segment, ...]
    noising: Noising | None = None

    def pack(self) -> bytes:
        """Return it as JSON."""
        return _canonical({"present": self.present, **self._vector()})

    def _vector(self) -> dict[str, Any]:
        noise = self.noising.describe() if self.noising else []
        return {"cap": self.cap, "segments": describe(self.segments), "noise": noise}

    def context(self, plan: Plan) -> bytes:
        """Return the digest of all that was said of a sum; masks depend on it."""
        return hashlib.sha256(plan.digest + self.pack()).digest()

    def layout(self, plan: Plan) -> Layout:
        """Return how the vector is laid out."""
        return Layout(self.segments, len(plan.cohort))

    def name_release(self, plan: Plan, alive: tuple[int, ...]) -> bytes:
        """Return the digest of what the sum of these clients tells: with noise, also on which grid and under how much.

        The same noise on another grid, or another noise on the same updates, would tell more than one sum.
        """
        told = {"alive": alive} | ({"clients": len(plan.cohort), **self._vector()} if self.noising else {})
        return hashlib.sha256(_canonical(told)).digest()


@dataclass(frozen=True)
class Verdict:
    """Whose vectors have come, and whose have not."""

    serial: int
    alive: tuple[int, ...]
    dead: tuple[int, ...]

    def pack(self) -> bytes:
        """Return it as JSON."""
        return _canonical({"serial": self.serial, "alive": self.alive, "dead": self.dead})

    def view(self, plan: Plan) -> bytes:
        """Return the digest of what a client was told of who is left."""
        return hashlib.sha256(plan.digest + self.pack()).digest()


def parse_plan(data: bytes) -> Plan:
    """Return the plan that bytes hold, or refuse them."""
    table = _table(data, "run", "epoch", "serial", "purpose", "cohort")
    return Plan(
        _text(table["run"]),
        _whole(table["epoch"]),
        _whole(table["serial"]),
        _text(table["purpose"]),
        _clients(table["cohort"]),
    )


def parse_terms(data: bytes) -> Terms:
    """Return the terms that bytes hold, or refuse them."""
    table = _table(data, "present", "cap", "segments", "noise")
    cap = _whole(table["cap"])
    if cap < 1 or not isinstance(table["segments"], list):
        raise Refused("terms of a sum that cannot be")
    segments = tuple(_segment(entry) for entry in table["segments"])
    return Terms(_clients(table["present"]), cap, segments, _noising(table["noise"]))


def parse_verdict(data: bytes) -> Verdict:
    """Return the verdict that bytes hold, or refuse them."""
    table = _table(data, "serial", "alive", "dead")
    return Verdict(_whole(table["serial"]), _clients(table["alive"]), _clients(table["dead"]))


def _noising(entry: Any) -> Noising | None:
    if entry == []:
        return None
    if not isinstance(entry, list) or len(entry) != 3:
        raise Refused("noise of a sum that cannot be")
    noise, clip, enough = entry
    if not all(isinstance(one, int | float) and math.isfinite(one) and one > 0 for one in (noise, clip)):
        raise Refused(f"noise of {str(noise)[:20]} times a clip of {str(clip)[:20]}, both must be > 0")
    return Noising(float(noise), float(clip), _whole(enough))


def _segment(entry: Any) -> Segment:
    if not isinstance(entry, list) or len(entry) != 4:
        raise Refused("a segment that cannot be")
    name, size, largest, bits = entry
    fits = (
        isinstance(largest, int | float) and math.isfinite(largest) and largest > 0 and bits in (WIDE, NARROW)
    )
    if not fits:
        raise Refused(f"a segment of range {str(largest)[:20]} and {str(bits)[:20]} bits")
    return Segment(_text(name), _whole(size), float(largest), int(bits))


def _table(data: bytes, *names: str) -> dict[str, Any]:
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or table.keys() != set(names):
        raise Refused(f"a message of a sum that is not readable, must have {', '.join(names)}")
    return table


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Refused(f"{str(value)[:40]} where a whole number must be")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise Refused("what must be a short text is none")
    return value


def _clients(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise Refused("what must be a list of clients is none")
    found = tuple(_whole(entry) for entry in value)
    if any(later <= former for former, later in itertools.pairwise(found)):
        raise Refused("a list of clients that names one twice, or is not in ascending order")
    return found


def stamp(serial: int, content: bytes) -> bytes:
    """Return an answer with the number of the sum that it belongs to."""
    return _STAMP.pack(serial) + content


def read_stamped(serial: int, data: bytes) -> bytes:
    """Return the content of an answer, or refuse one that belongs to another sum: a repeated round has two."""
    if len(data) < _STAMP.size or _STAMP.unpack_from(data) != (serial,):
        raise Refused("an answer to another sum than was asked for")
    return data[_STAMP.size :]


def pack_parts(*parts: bytes) -> bytes:
    """Return byte strings one after another, each with its length."""
    return b"".join(_SIZE.pack(len(part)) + part for part in parts)


def unpack_parts(data: bytes, count: int) -> list[bytes]:
    """Return so many byte strings, or refuse what does not hold them."""
    parts, at = [], 0
    for _ in range(count):
        if len(data) < at + _SIZE.size:
            raise Refused("a message of a sum that is cut off")
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        parts.append(data[at : at + size])
        at += size
    if at != len(data):
        raise Refused("a message of a sum that is cut off, or too long")
    return parts


def pack_table(entries: Mapping[int, bytes]) -> bytes:
    """Return client -> bytes as bytes."""
    return b"".join(_ENTRY.pack(client, len(entries[client])) + entries[client] for client in sorted(entries))


def unpack_table(data: bytes, sizes: Sequence[int] | None = None) -> dict[int, bytes]:
    """Return client -> bytes, each client once; refuse anything else.

    Args:
        sizes: lengths that an entry may have; None for any.
    """
    entries: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if len(data) < at + _ENTRY.size:
            raise Refused("a table of clients that is cut off")
        client, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if client in entries or len(data) < at + size or (sizes is not None and size not in sizes):
            raise Refused("a table of clients that cannot be")
        entries[client] = data[at : at + size]
        at += size
    return entries
