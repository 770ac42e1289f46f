"""What a person sees while a run goes on: a live panel in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from prunefl.commands.summary import spoken_bytes, spoken_seconds, summary_table
from prunefl.config import Config
from prunefl.config.losses import metric_of
from prunefl.core.objectives import METRICS

Record = dict[str, Any]


class Screen:
    """Shows each record; a base for the two ways of showing."""

    def __init__(self, config: Config, console: Console, folder: Path = Path()) -> None:
        self.config, self.console, self.folder = config, console, folder
        self.accuracy: float | None = None
        self.metric = METRICS[metric_of(config)]
        self.at_clients: Record | None = None
        self.started: tuple[int, float] | None = None

    def show(self, record: Record) -> None:
        """Show one record."""
        self.accuracy = record.get("accuracy", record.get("score", self.accuracy))
        self.at_clients = record.get("evaluation", self.at_clients)

    def show_begin(self, cut: str, done: int) -> None:
        """Show what is about to be trained, and how the data is divided among clients."""
        run = self.config.run
        if done >= run.rounds:
            self.say(
                f"{self.folder}: all {run.rounds} rounds are done, nothing to resume (run.rounds=N adds some)"
            )
            return
        self.say(
            f"training {self.config.model.name} on {self.config.data.name} with {run.method} into {self.folder}"
        )
        self.say(f"data: {cut}")
        if done > 0:
            self.say(f"going on after round {done} of {run.rounds}")

    def say(self, line: str) -> None:
        """Print a line beside the figures."""
        print(line, file=sys.stderr, flush=True)

    def show_pass(self, done: int, most: int, density: float) -> None:
        """Show how far initial pruning is."""

    def parts(self, record: Record) -> dict[str, str]:
        """Return what there is to say of a record, in order."""
        total, at_clients = record["total"], {}
        if found := self.at_clients:
            words = f"{found['accuracy']:.2%} (worst tenth {found['worst_tenth']:.2%})"
            at_clients = {f"at {found['clients']} clients": words}
        return {
            **({} if self.accuracy is None and at_clients else {self.metric.words: self._judged()}),
            **at_clients,
            "loss": f"{record['loss']:.4f}" if "loss" in record else "-",
            "density": f"{record['density']:.1%}",
            "simulated": spoken_seconds(total["seconds"]),
            "wall": spoken_seconds(total["wall_seconds"]),
            "sent": spoken_bytes(total["bytes_up"] + total["bytes_down"]),
            "left": self.time_left(record),
        }

    def _judged(self) -> str:
        return "-" if self.accuracy is None else self.metric.spoken(self.accuracy)

    def time_left(self, record: Record) -> str:
        """Return how long the rest will take at the pace of this session so far."""
        done = record.get("round", 0)
        if self.started is None:
            self.started = (done, time.monotonic())
            return "-"
        first, then = self.started
        pace = (time.monotonic() - then) / max(1, done - first)
        return spoken_seconds(pace * (self.config.run.rounds - done))

    def summary(self, records: list[Record]) -> None:
        """Print what the run came to."""
        self.console.print(
            summary_table(
                [(self.config.run.method, records)],
                self.config.run.target_accuracy or self.config.run.target_score,
            )
        )


class Lines(Screen):
    """One plain line for each evaluated round, for logs and pipes."""

    def show(self, record: Record) -> None:
        super().show(record)
        # a run without a test set is told of as often as one with
        if (
            record["kind"] == "initial"
            or record["round"] % self.config.run.eval_every == 0
            or self._is_last(record)
        ):
            name = "initial pruning" if record["kind"] == "initial" else f"round {record['round']}"
            said = "  ".join(f"{key} {value}" for key, value in self.parts(record).items())
            print(f"{name:>15}  {said}", file=sys.stderr, flush=True)

    def _is_last(self, record: Record) -> bool:
        return bool(record["round"] >= self.config.run.rounds)

    def show_pass(self, done: int, most: int, density: float) -> None:
        if done % 50 == 0:
            print(
                f"initial pruning  pass {done} of at most {most}  density {density:.1%}",
                file=sys.stderr,
                flush=True,
            )


class Panel(Screen):
    """A bar and the figures below it, redrawn in place."""

    def __init__(self, config: Config, console: Console, folder: Path = Path()) -> None:
        super().__init__(config, console, folder)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(None),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        )
        self.task = self.bar.add_task("initial pruning", total=config.run.rounds)
        self.live = Live(self._drawn({}), console=console, refresh_per_second=4)

    def show(self, record: Record) -> None:
        super().show(record)
        self.bar.update(
            self.task,
            completed=record.get("round", 0),
            total=self.config.run.rounds,
            description=f"[bold]{self.config.run.method}",
        )
        self.live.update(self._drawn(self.parts(record)))

    def show_begin(self, cut: str, done: int) -> None:
        super().show_begin(cut, done)
        self.live.start()

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show_pass(self, done: int, most: int, density: float) -> None:
        self.bar.update(self.task, completed=done, total=most)
        self.live.update(self._drawn({"density": f"{density:.1%}"}))

    def _drawn(self, parts: dict[str, str]) -> Table:
        figures = Table.grid(padding=(0, 3))
        figures.add_row(*(f"[dim]{key}" for key in parts))
        figures.add_row(*parts.values())
        outer = Table.grid(expand=True)
        outer.add_row(self.bar)
        outer.add_row(figures)
        return outer


@contextmanager
def show_progress(config: Config, folder: Path) -> Iterator[Screen]:
    """Yield a screen for a run; `folder` is where a person will find what it leaves."""
    if not Console(stderr=True).is_terminal:
        yield Lines(config, Console(), folder)
        return
    panel = Panel(config, Console(), folder)
    try:
        yield panel
    finally:
        panel.live.stop()
