"""The state of a real run in one small file that `prunefl status` and other programs may read at any time."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunefl.engines.flower.heard import read_heard
from prunefl.system.errors import PruneFLError

# Reading a status must not take the seconds that torch takes to load.
if TYPE_CHECKING:
    from prunefl.engines.flower.membership import Member

FILE = "status.json"
MAX_BYTES = 16 << 20
"""A status has a few hundred bytes a client."""

LARGEST = 2**63

KINDS = {
    "phase": str,
    "round": int,
    "rounds": int,
    "density": float,
    "bytes_up": float,
    "bytes_down": float,
    "updated": float,
    "accuracy": (float,),
    "clients_accuracy": (float,),
    "worst_tenth": (float,),
    "classes": ([str],),
    "turned_away": (dict,),
    "privacy": (dict,),
    "nodes": [dict],
}
"""What readers count on; in brackets what may be missing."""

PRIVACY_KINDS = {"epsilon": float, "delta": float}

NODE_KINDS = {
    "client": int,
    "online": bool,
    "overdue": bool,
    "last_seen": float,
    "last_heard": (float,),
    "samples": int,
    "counts_for": (float,),
    "left_out": int,
    "refusal": str,
    "held_out": (int,),
    "by_class": ([int],),
    "accuracy": (float,),
    "personal": (float,),
}


@dataclass
class Status:
    """Writes `status.json` in the run's folder, at most once a second."""

    folder: Path
    rounds: int
    members: "Mapping[int, Member]" = field(default_factory=dict)
    phase: str = "starting"
    record: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    written: float = 0.0
    has_test: bool = True
    accuracy: float | None = None
    classes: Sequence[str] = ()
    turned_away: Mapping[int, str] = field(default_factory=dict)
    weight_cap: float = 0.0

    def write(self, now: bool = False) -> None:
        """Write the file, unless it is younger than a second and nobody insists."""
        if not now and time.monotonic() - self.written < 1.0:
            return
        from prunefl.system.files import write_atomically

        self.written = time.monotonic()
        write_atomically(self.folder / FILE, json.dumps(self.content()).encode(), durable=False)

    def content(self) -> dict[str, Any]:
        """Return what is in the file."""
        total = self.record.get("total", {})
        heard, counted = read_heard(self.folder), self._count_samples()
        return {
            "phase": self.phase,
            "round": self.record.get("round", 0),
            "rounds": self.rounds,
            "density": self.record.get("density", 1.0),
            "loss": self.record.get("loss"),
            "privacy": self.record.get("privacy"),
            "has_test": self.has_test,
            "accuracy": self.accuracy,
            "bytes_up": total.get("bytes_up", 0),
            "bytes_down": total.get("bytes_down", 0),
            "updated": time.time(),
            "clients_accuracy": self.evaluation.get("accuracy"),
            "worst_tenth": self.evaluation.get("worst_tenth"),
            "classes": list(self.classes),
            "turned_away": {str(client): why for client, why in self.turned_away.items()},
            "nodes": [
                _describe(member, heard.get(member.node, (0.0, 0.0))) | {"counts_for": counted[client]}
                for client, member in self.members.items()
            ],
        }

    def _count_samples(self) -> dict[int, float]:
        """Return how many samples each client counts for where all that have come take part in a round."""
        said = {client: member.num_samples for client, member in self.members.items()}
        from prunefl.rounds.bounds import bound_samples

        there = [client for client, samples in said.items() if samples]
        counted = bound_samples([said[client] for client in there], self.weight_cap)
        return said | dict(zip(there, counted, strict=True))


def _describe(member: "Member", heard: tuple[float, float]) -> dict[str, Any]:
    return {
        "client": member.client,
        "online": member.online,
        "overdue": member.overdue,
        "working": bool(member.message),
        "last_seen": member.last_seen,
        "last_heard": heard[0],
        "longest_silence": heard[1],
        "samples": member.num_samples,
        "left_out": member.refusals,
        "barred": bool(member.barred),
        "refusal": member.barred or member.refusal,
        "bytes_up": member.bytes_up,
        "bytes_down": member.bytes_down,
        "held_out": member.held_out,
        "by_class": list(member.by_class),
        "accuracy": member.accuracy,
        "personal": member.personal,
    }


def read_status(folder: Path) -> dict[str, Any]:
    """Return the content of a run's status file."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise PruneFLError(
            f"{path}: no such file; give the folder of a run that `prunefl server` started"
        ) from None
    return parse_status(data, str(path))


def parse_status(data: bytes, source: str) -> dict[str, Any]:
    """Return what the bytes of a status say; PruneFLError, in one line, if they are none."""
    if len(data) > MAX_BYTES:
        raise PruneFLError(f"{source}: more than {MAX_BYTES} bytes, too many for a status")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PruneFLError(f"{source}: not readable ({error})") from None
    _check_kinds(content, KINDS, source)
    if content.get("privacy") is not None:
        _check_kinds(content["privacy"], PRIVACY_KINDS, source)
    for node in content["nodes"]:
        _check_kinds(node, NODE_KINDS, source)
    return dict(content)


def _check_kinds(table: Any, kinds: Mapping[str, Any], source: str) -> None:
    """Refuse a table that lacks what has no default, or has something of another kind."""
    if not isinstance(table, dict):
        raise PruneFLError(f"{source}: not a status")
    for name, kind in kinds.items():
        if not _is_kind(table.get(name), kind):
            raise PruneFLError(f"{source}: not a status: {name}={repr(table.get(name))[:80]}")


def _is_kind(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return value is None or _is_kind(value, kind[0])
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is_kind(item, kind[0]) for item in value)
    if kind is float:
        return isinstance(value, int | float) and abs(value) <= LARGEST
    if kind is int:
        return isinstance(value, int) and abs(value) <= LARGEST
    return isinstance(value, kind)
