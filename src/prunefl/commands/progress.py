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

from prunefl.config import Config

Record = dict[str, Any]


def spoken_seconds(seconds: float) -> str:
    """Return a duration as a person says it: 4.2 s, 3:05, 2:10:00."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def spoken_bytes(count: float) -> str:
    """Return a size as a person says it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


class Screen:
    """Shows each record; a base for the two ways of showing."""

    def __init__(self, config: Config, console: Console) -> None:
        self.config, self.console = config, console
        self.accuracy: float | None = None
        self.at_clients: Record | None = None
        self.started: tuple[int, float] | None = None

    def show(self, record: Record) -> None:
        """Show one record."""
        self.accuracy = record.get("accuracy", self.accuracy)
        self.at_clients = record.get("evaluation", self.at_clients)

    def show_cut(self, cut: str) -> None:
        """Show how the data is divided among clients."""
        print(f"data: {cut}", file=sys.stderr, flush=True)

    def show_pass(self, done: int, most: int, density: float) -> None:
        """Show how far initial pruning is."""

    def parts(self, record: Record) -> dict[str, str]:
        """Return what there is to say of a record, in order."""
        total, at_clients = record["total"], {}
        if found := self.at_clients:
            words = f"{found['accuracy']:.2%} (worst tenth {found['worst_tenth']:.2%})"
            at_clients = {f"at {found['clients']} clients": words}
        return {
            **({} if self.accuracy is None and at_clients else {"accuracy": _percent(self.accuracy)}),
            **at_clients,
            "loss": f"{record['loss']:.4f}" if "loss" in record else "-",
            "density": f"{record['density']:.1%}",
            "simulated": spoken_seconds(total["seconds"]),
            "wall": spoken_seconds(total["wall_seconds"]),
            "sent": spoken_bytes(total["bytes_up"] + total["bytes_down"]),
            "left": self.time_left(record),
        }

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
            summary_table([(self.config.run.method, records)], self.config.run.target_accuracy)
        )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


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

    def __init__(self, config: Config, console: Console) -> None:
        super().__init__(config, console)
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

    def show_cut(self, cut: str) -> None:
        self.live.console.print(f"data: {cut}", highlight=False, markup=False)

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
    console = Console(stderr=True)
    console.print(
        f"training {config.model.name} on {config.data.name} with [bold]{config.run.method}[/] into {folder}",
        soft_wrap=True,
    )
    if not console.is_terminal:
        # A pipe has no width: the table must not be folded to eighty columns.
        yield Lines(config, Console(width=140))
        return
    panel = Panel(config, Console())
    with panel.live:
        yield panel


def summary_table(runs: list[tuple[str, list[Record]]], target: float) -> Table:
    """Return accuracy, density, bytes and times of finished runs side by side."""
    from prunefl.runs.records import cost_to_reach, final_accuracy

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    columns = ["method", "accuracy", "density", "sent", "simulated time", "wall time"]
    at_clients = [_last_evaluation(records) for _, records in runs]
    if any(at_clients):
        columns[2:2] = ["at the clients", "worst tenth"]
    for column in columns + ([f"simulated to {target:.0%}", f"wall to {target:.0%}"] if target else []):
        table.add_column(column, justify="left" if column == "method" else "right")
    for (name, records), found in zip(runs, at_clients, strict=True):
        last = next(record for record in reversed(records) if record["kind"] == "round")
        total, accuracy = last["total"], final_accuracy(records)
        row = [
            name,
            "no test set" if accuracy is None else _percent(accuracy),
            *([_percent(found.get(key)) for key in ("accuracy", "worst_tenth")] if any(at_clients) else []),
            f"{last['density']:.1%}",
            spoken_bytes(total["bytes_up"] + total["bytes_down"]),
            spoken_seconds(total["seconds"]),
            spoken_seconds(total["wall_seconds"]),
        ]
        if target:
            reached = cost_to_reach(records, target)
            costs = reached["total"] if reached else None
            row += [
                spoken_seconds(costs[key]) if costs else "not reached" for key in ("seconds", "wall_seconds")
            ]
        table.add_row(*row)
    return table


def _last_evaluation(records: list[Record]) -> Record:
    """Return the last evaluation at clients, or nothing."""
    return next((record["evaluation"] for record in reversed(records) if "evaluation" in record), {})
