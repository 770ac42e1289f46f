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
        heard = read_heard(self.folder)
        return {
            "phase": self.phase,
            "round": self.record.get("round", 0),
            "rounds": self.rounds,
            "density": self.record.get("density", 1.0),
            "loss": self.record.get("loss"),
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
                _describe(member, heard.get(member.node, (0.0, 0.0))) for member in self.members.values()
            ],
        }


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
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise PruneFLError(
            f"{path}: no such file; give the folder of a run that `prunefl server` started"
        ) from None
    except ValueError as error:
        raise PruneFLError(f"{path}: not readable ({error})") from None
    if not isinstance(content, dict):
        raise PruneFLError(f"{path}: not a status")
    return content
