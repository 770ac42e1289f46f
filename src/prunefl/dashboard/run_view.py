"""One run as the page shows it, put together from its records and its status file as they grow."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prunefl.dashboard.lanes import Lanes, checked_status
from prunefl.dashboard.tail import News, Tail
from prunefl.dashboard.telling import is_newer, known_metric, tell_change, tell_initial, tell_privacy
from prunefl.dashboard.track import Track
from prunefl.methods import label_method
from prunefl.report.headline import title_of
from prunefl.report.layers import describe_layer
from prunefl.report.palette import method_colours
from prunefl.report.runs import read_config, read_variant
from prunefl.runs.records import clients_accuracy_of, score_of
from prunefl.system.errors import PruneFLError
from prunefl.system.locks import is_held
from prunefl.system.version import VERSION

RECENT = 20
"""Rounds by which the pace is judged."""

LARGEST_STATUS = 16 << 20
SERIES = ("accuracy", "loss", "test_loss", "clients", "density", "charged", "predicted", "round_wall")


class RunView:
    """What is known of one run folder. `look` brings it up to date; the rest only tells."""

    def __init__(self, folder: Path, name: str, key: str) -> None:
        self.folder, self.name, self.key = folder, name, key
        self._tail = Tail(folder / "records.jsonl")
        self._generation = 0
        self.status: Mapping[str, Any] | None = None
        self._status_seen: tuple[int, int] | None = None
        self.held: bool | None = None
        self.is_behind = False
        self._forget()

    def _forget(self) -> None:
        """Begin anew: the records are others."""
        self._generation += 1000
        self.header: Mapping[str, Any] = {}
        self.initial: Mapping[str, Any] | None = None
        self.last: Mapping[str, Any] = {}
        self.ended: Mapping[str, Any] | None = None
        self.damaged: list[int] = []
        self.series = {name: Track(self._generation) for name in SERIES}
        self.layers: dict[str, Track] = {}
        self.lanes = Lanes()
        self.live: Mapping[str, int] = {}
        self.change: Mapping[str, Any] | None = None
        self.recent: list[float] = []
        self.worst_tenth: float | None = None
        self.note = ""
        self.config: Mapping[str, Any] = {}
        self.variant: Mapping[str, Any] = {}
        self.unreadable = ""

    def look(self) -> bool:
        """Read what is new and return whether anything is, or whether there is more to read at once."""
        try:
            news = self._tail.look()
        except OSError as error:
            changed, self.unreadable = self.unreadable == "", f"records.jsonl: {error.strerror}"
            return changed
        self.unreadable, self.is_behind = "", news.more
        if news.anew:
            self._forget()
        self._enter(news)
        held = is_held(self.folder)
        changed = self._look_at_status() or held != self.held
        self.held = held
        return changed or news.anew or bool(news.records or news.damaged) or news.more

    def _enter(self, news: News) -> None:
        self.damaged += news.damaged
        for record in news.records:
            if record["kind"] == "run":
                self._begin(record)
            elif record["kind"] == "initial":
                self.initial, self.last = record, record
                self._enter_live(0, record.get("live") or {})
            elif record["kind"] == "round":
                self._enter_round(record)
            elif record["kind"] == "end":
                self.ended = record

    def _begin(self, header: Mapping[str, Any]) -> None:
        self.header = header
        clients = header.get("clients")
        self.lanes.count = clients if isinstance(clients, int) and 0 <= clients <= 1_000_000 else 0
        try:
            self.config = read_config(self.folder / "config.toml")
            self.variant = read_variant(self.folder)
        except PruneFLError as error:
            self.note = str(error)
        self.layers = {name: Track(self._generation) for name in header.get("layers") or {}}
        self._enter_live(0, header.get("live") or {})

    def _enter_live(self, number: int, live: Mapping[str, int]) -> None:
        for name, size in (self.header.get("layers") or {}).items():
            if name in live:
                self.layers[name].add((number, live[name] / max(1, size)))
        self.live = live or self.live

    def _enter_round(self, record: Mapping[str, Any]) -> None:
        number, total = record["round"], record["total"]
        at = (
            number,
            total["seconds"],
            total.get("wall_seconds", 0.0),
            total["bytes_up"] + total["bytes_down"],
        )
        values = {
            # of the task's own metric where it has one; what clients found stands apart
            "accuracy": score_of(record) if {"accuracy", "score"} & record.keys() else None,
            "clients": clients_accuracy_of(record),
            "loss": record.get("loss"),
            "test_loss": record.get("test_loss"),
            "density": record["density"],
            "charged": (record.get("seconds") or {}).get("total"),
            # what was said of this round before it began
            "predicted": self.last.get("predicted_seconds") if self.last.get("round") == number - 1 else None,
            "round_wall": record.get("wall_seconds"),
        }
        for name, value in values.items():
            if isinstance(value, int | float):
                self.series[name].add((*at, value))
        if record.get("reconfigured") and record.get("live"):
            self.change = {
                "round": number,
                "before": dict(self.live),
                "after": record["live"],
                "seconds_before": self.last.get("predicted_seconds"),
                "seconds_after": record.get("predicted_seconds"),
            }
        self._enter_live(number, record.get("live") or {})
        self.lanes.add(record)
        self.worst_tenth = (record.get("evaluation") or {}).get("worst_tenth", self.worst_tenth)
        self.recent = [*self.recent[1 - RECENT :], float(record.get("wall_seconds") or 0.0)]
        self.last, self.ended = record, None

    def _look_at_status(self) -> bool:
        """Read the status file of a federation if it has changed."""
        path = self.folder / "status.json"
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
            if seen == self._status_seen or stat.st_size > LARGEST_STATUS:
                return False
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        self._status_seen = seen
        self.status = checked_status(content)
        return True

    # ---- what it tells ----

    @property
    def rounds(self) -> int:
        """Return how many rounds the run is to have; 0 if no config tells."""
        planned = (self.config.get("run") or {}).get("rounds", 0)
        return planned if isinstance(planned, int) else 0

    @property
    def round(self) -> int:
        """Return the last round that is recorded."""
        return int(self.last.get("round", 0))

    @property
    def pace(self) -> float | None:
        """Return the real seconds of a round, of late."""
        return sum(self.recent) / len(self.recent) if self.recent else None

    def state(self) -> str:
        """Return in a word how the run is: finished, stopped, silent, waiting, starting or training."""
        if self.ended is not None and self.held is not True:
            return "finished"
        if self.held is False:
            return "stopped"
        if self.held is None and time.time() - self.changed() > max(60.0, 10 * (self.pace or 0.0)):
            return "silent"
        if self.ended is not None:
            return "finished"
        if self.status is not None and str(self.status.get("phase", "")).startswith("waiting"):
            return "waiting"
        return "training" if self.round else "starting"

    def changed(self) -> float:
        """Return when the records were last written; 0 if there are none."""
        try:
            return (self.folder / "records.jsonl").stat().st_mtime
        except OSError:
            return 0.0

    def notes(self) -> list[str]:
        """Return what is missing or damaged, in words."""
        found = [self.unreadable, self.note]
        if self.damaged:
            lines = ", ".join(map(str, self.damaged[:5])) + (" …" if len(self.damaged) > 5 else "")
            found.append(f"records.jsonl: line {lines} is damaged and left out")
        version = str(self.header.get("version", VERSION))
        if is_newer(version):
            found.append(
                f"written by prunefl {version[:20]}; this is {VERSION}, and leaves out what it does not know"
            )
        if not self.header and not self.unreadable:
            found.append("records.jsonl: no readable first line yet")
        return [note for note in found if note]

    def summary(self) -> dict[str, Any]:
        """Return where the run is, in one small table."""
        total, state = self.last.get("total") or {}, self.state()
        method, metric = str(self.header.get("method", "?")), known_metric(self.header)
        light, dark, dash = method_colours(method)
        left = self.pace * (self.rounds - self.round) if self.pace and state == "training" else None
        accuracy, clients = self.series["accuracy"].last, self.series["clients"].last
        return {
            "key": self.key,
            "name": self.name,
            "label": str(self.variant.get("label") or label_method(method)),
            "method": method,
            "colours": [light, dark],
            "dash": dash,
            "seed": self.header.get("seed"),
            "title": title_of(self.header),
            "metric": {"name": metric.name, "words": metric.words, "percent": metric.percent},
            "federation": self.status is not None,
            "state": state,
            "round": self.round,
            "rounds": self.rounds,
            "left": left,
            "pace": self.pace,
            "accuracy": accuracy[-1] if accuracy else None,
            "accuracy_round": accuracy[0] if accuracy else None,
            "clients_accuracy": clients[-1] if clients else None,
            "loss": self.last.get("loss"),
            "epsilon": (self.last.get("privacy") or {}).get("epsilon"),
            "density": self.last.get("density", 1.0),
            "seconds": total.get("seconds", 0.0),
            "wall": total.get("wall_seconds", 0.0),
            "bytes_up": total.get("bytes_up", 0),
            "bytes_down": total.get("bytes_down", 0),
            "clients": self.lanes.count,
            "updated": (self.status or {}).get("updated") or self.changed(),
            "notes": self.notes(),
        }

    def detail(self) -> dict[str, Any]:
        """Return what is shown of the chosen run alone, but for curves and lanes."""
        shapes = self.header.get("shapes") or {}
        sizes = self.header.get("layers") or {}
        return {
            "layers": [
                {"name": describe_layer(name, shapes.get(name, ())), "size": size}
                for name, size in sizes.items()
            ],
            "change": tell_change(self.change, sizes),
            "initial": tell_initial(self.initial),
            "privacy": tell_privacy(self.last, self.config),
            "machine": self.header.get("machine", ""),
            "started": self.header.get("started", ""),
            "cut": self.header.get("cut", ""),
            "folder": str(self.folder),
            "worst_tenth": self.worst_tenth,
        }
