"""The live panel of a run in a terminal: a bar, figures, a sparkline, and the density of each layer."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from prunefl.commands.progress import Lines, Record, Screen
from prunefl.config import Config
from prunefl.runs.records import read_header, score_of

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 32
MOST_LAYERS = 12
"""Layers that are shown; the largest, where there are more."""


def sparkline(values: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """Return the values as blocks from the lowest to the highest; of each stretch the last value."""
    if not values:
        return ""
    step = max(1.0, len(values) / width)
    shown = [
        values[min(len(values), round((place + 1) * step)) - 1] for place in range(min(width, len(values)))
    ]
    low, high = min(shown), max(shown)
    height = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * height)] for value in shown)


def layer_rows(header: Mapping[str, Any], live: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Return (layer, bar, density) of the layers, in the model's order."""
    from prunefl.report.layers import describe_layer

    sizes, shapes = header.get("layers", {}), header.get("shapes", {})
    largest = set(sorted(sizes, key=lambda name: -sizes[name])[:MOST_LAYERS])
    rows = []
    for name, size in sizes.items():
        if name in largest and name in live:
            share = live[name] / max(1, size)
            full = round(20 * share)
            bar = "━" * full + "[dim]" + "╌" * (20 - full) + "[/]"
            rows.append((escape(describe_layer(name, shapes.get(name, ()))), bar, f"{share:.1%}"))
    left = len(sizes) - len(largest)
    return rows + ([(f"and {left} smaller layers", "", "")] if left > 0 else [])


class Panel(Screen):
    """A bar and the figures below it, redrawn in place."""

    def __init__(self, config: Config, console: Console, folder: Path = Path()) -> None:
        super().__init__(config, console, folder)
        self.header: Mapping[str, Any] = {}
        self.scores: list[float] = []
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(None),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        )
        self.task = self.bar.add_task("initial pruning", total=config.run.rounds)
        self.live = Live(self._drawn({}), console=console, refresh_per_second=4)

    def show(self, record: Record) -> None:
        super().show(record)
        self.header = self.header or read_header(self.folder / "records.jsonl")
        if (score := score_of(record)) is not None:
            self.scores.append(score)
        self.bar.update(
            self.task,
            completed=record.get("round", 0),
            total=self.config.run.rounds,
            description=f"[bold]{self.config.run.method}",
        )
        self.live.update(self._drawn(self.parts(record), record["live"]))

    def show_begin(self, cut: str, done: int) -> None:
        super().show_begin(cut, done)
        if done < self.config.run.rounds:
            self.live.start()

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False)

    def show_pass(self, done: int, most: int, density: float) -> None:
        self.bar.update(self.task, completed=done, total=most)
        self.live.update(self._drawn({"density": f"{density:.1%}"}))

    def _drawn(self, parts: dict[str, str], live: Mapping[str, int] | None = None) -> Table:
        figures = Table.grid(padding=(0, 3))
        figures.add_row(*(f"[dim]{key}" for key in parts))
        figures.add_row(*parts.values())
        outer = Table.grid(expand=True)
        outer.add_row(self.bar)
        outer.add_row(figures)
        if len(self.scores) > 1:
            ends = " to ".join(map(self.metric.spoken, (min(self.scores), max(self.scores))))
            outer.add_row(f"[dim]{self.metric.words}[/] {sparkline(self.scores)} [dim]{ends}[/]")
        if rows := layer_rows(self.header, live or {}):
            layers = Table.grid(padding=(0, 2))
            for row in rows:
                layers.add_row(*row)
            outer.add_row(layers)
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
