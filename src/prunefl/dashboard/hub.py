"""All runs below the folders that were named, kept up to date, and what each page has yet to be told of them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prunefl.dashboard.run_view import RunView
from prunefl.dashboard.track import Track
from prunefl.system.errors import PruneFLError

MOST_RUNS = 200
"""Runs that are followed; the newest, if there are more."""

SEARCH_EVERY = 4
"""Looks from one search for new runs to the next."""

EVERYWHERE = ("accuracy", "clients", "loss")
"""Curves that are sent of every run, to be seen side by side; the others of the chosen one."""


class Hub:
    """The runs by key. `look` reads files and is meant for a thread of its own; a `Reader` tells one page."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self.views: dict[str, RunView] = {}
        self.left_out = 0
        self._looks = 0

    def look(self) -> bool:
        """Bring all runs up to date and return whether anything has changed."""
        changed = self._search() if self._looks % SEARCH_EVERY == 0 else False
        self._looks += 1
        for view in list(self.views.values()):
            changed = view.look() or changed
        return changed

    @property
    def is_behind(self) -> bool:
        """Return whether there is more to read at once."""
        return any(view.is_behind for view in self.views.values())

    def _search(self) -> bool:
        found = dict(_run_folders(self.folders))
        newest = sorted(found, key=_age)[:MOST_RUNS]
        self.left_out = len(found) - len(newest)
        keys = {folder: _key(folder) for folder in sorted(newest)}
        gone = self.views.keys() - set(keys.values())
        new = {key: folder for folder, key in keys.items() if key not in self.views}
        for key in gone:
            del self.views[key]
        for key, folder in new.items():
            self.views[key] = RunView(folder, found[folder], key)
        if new:
            self.views = {key: self.views[key] for key in keys.values()}
        return bool(gone or new)


def refuse_empty(folders: Sequence[Path]) -> None:
    """Refuse folders that are none, or hold no run."""
    for folder in folders:
        if not folder.is_dir():
            raise PruneFLError(f"{folder}: no such folder")
        if not any(_run_folders([folder])):
            raise PruneFLError(f"{folder}: no runs found (no records.jsonl in it or below it)")


def _run_folders(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each run folder with its name: where it lies below the folder that was named."""
    for folder in folders:
        try:
            files = sorted(folder.rglob("records.jsonl"))
        except OSError:
            continue
        for file in files:
            below, own = file.parent.relative_to(folder).as_posix(), folder.resolve().name
            several = [own] if len(folders) > 1 else []
            yield file.parent.resolve(), own if below == "." else "/".join([*several, below])


def _age(folder: Path) -> float:
    try:
        return -(folder / "records.jsonl").stat().st_mtime
    except OSError:
        return 0.0


def _key(folder: Path) -> str:
    """Return a name that is fit for an address and a CSS variable, and the same tomorrow."""
    return "r" + hashlib.blake2b(str(folder).encode(errors="replace"), digest_size=6).hexdigest()


def _most_alive(views: Sequence[RunView]) -> RunView | None:
    """Return the run to show where none was chosen: the first that is at work, else the first."""
    return next((view for view in views if view.state() == "training"), views[0] if views else None)


@dataclass
class Reader:
    """What one page has been told: it is sent what it lacks.

    Attributes:
        chosen: key of the run of which the page shows everything; "" for the first.
    """

    hub: Hub
    chosen: str = ""
    _sent: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    _told: dict[str, Any] = field(default_factory=dict)
    _lanes: dict[int, list[Any]] = field(default_factory=dict)
    _round: int = 0

    def news(self) -> dict[str, Any]:
        """Return all that has changed since the last time, as the page's script takes it."""
        views = self.hub.views
        chosen = views.get(self.chosen) or _most_alive(list(views.values()))
        runs = [view.summary() for view in views.values()]
        news: dict[str, Any] = {
            "runs": runs,
            "left_out": self.hub.left_out,
            "chosen": chosen.key if chosen else "",
        }
        news["curves"] = [
            piece
            for view in views.values()
            for name, track in view.series.items()
            if (view is chosen or name in EVERYWHERE)
            and (piece := self._piece(view.key, name, track)) is not None
        ]
        if chosen is not None:
            news["layers"] = [
                piece
                for place, track in enumerate(chosen.layers.values())
                if (piece := self._piece(chosen.key, f"layer {place}", track)) is not None
            ]
            news |= self._details(chosen)
        return news

    def _piece(self, key: str, name: str, track: Track) -> dict[str, Any] | None:
        """Return the stretches of a curve that the page does not have, or None."""
        generation, start, newest = (*self._sent.get((key, name), (-1, 0)), track.last)
        if generation != track.generation:
            start = 0
        elif self._told.get(f"{key} {name}") == newest:
            return None
        self._sent[key, name] = (track.generation, max(0, len(track) - 1))
        self._told[f"{key} {name}"] = newest
        if not len(track) and generation == -1:
            return None
        return {"run": key, "name": name, "from": start, "stretches": track.stretches(start)}

    def _details(self, view: RunView) -> dict[str, Any]:
        found: dict[str, Any] = {}
        detail = view.detail()
        if self._told.get("detail") != detail:
            self._told["detail"] = found["detail"] = detail
        rows = view.lanes.rows(view.status, view.state() in ("training", "waiting", "starting"))
        changed = [row for row in rows if self._lanes.get(row[0]) != row]
        if changed:
            self._lanes |= {row[0]: row for row in changed}
            found["lanes"] = changed
        history: list[list[Any]] = []
        if view.round < self._round:
            # resumed from an earlier round: what was shown of later ones has not happened
            self._round, found["anew"] = 0, True
        if view.round != self._round:
            history = [[number, letters] for number, letters in view.lanes.history(self._round)]
        if history:
            found["history"] = history
        self._round = view.round
        return found
