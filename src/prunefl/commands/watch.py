"""`prunefl watch`: a run of another process on this machine, as its own terminal would show it."""

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from prunefl.system.errors import PruneFLError

LOOK_SECONDS = 0.5


def watch(
    folder: Annotated[Path, typer.Argument(help="the folder of a run: simulated or a server's")],
    once: Annotated[bool, typer.Option("--once", help="show how it is now, and end")] = False,
) -> None:
    """Show the progress of a run elsewhere on this machine: accuracy, density by layer, time left. Ctrl-C ends it.

    It reads the run's records, and goes on when a run that was stopped or killed is resumed.

    Example:
      prunefl watch runs/first
    """
    from prunefl.commands.configs import resolve
    from prunefl.commands.panel import Panel, show_progress
    from prunefl.dashboard.tail import Tail
    from prunefl.system.locks import is_held

    if not (folder / "records.jsonl").is_file():
        raise PruneFLError(f"{folder}: no run there (no records.jsonl)")
    tail, known = Tail(folder / "records.jsonl"), Watched()
    with show_progress(resolve([], None, folder)[0], folder) as screen:
        screen.say(f"watching {folder}")
        if isinstance(screen, Panel):
            screen.live.start()
        while True:
            news = tail.look()
            known = Watched() if news.anew else known
            for number in news.damaged:
                print(f"line {number} of {tail.path} is damaged and left out", file=sys.stderr)
            for record in known.take(news.records):
                screen.show(record)
            if news.more:
                continue
            if once or known.ended or is_held(folder) is False:
                break
            time.sleep(LOOK_SECONDS)
    if any(record["kind"] == "round" for record in known.records):
        screen.summary(known.records)
    if not known.ended and not once:
        print(
            f"nobody is at work in {folder}; go on with: prunefl run --out {folder} --resume", file=sys.stderr
        )


@dataclass
class Watched:
    """The records read so far; each is shown with its layers, which the file repeats only where they change."""

    records: list[dict[str, Any]] = field(default_factory=list)
    live: Mapping[str, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Return whether the run is finished."""
        return bool(self.records) and self.records[-1]["kind"] == "end"

    def take(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Enter new records and return those to show."""
        shown = []
        for record in records:
            self.live = record.get("live") or self.live
            self.records.append(record)
            if record["kind"] in ("initial", "round"):
                shown.append({**record, "live": self.live})
        return shown
