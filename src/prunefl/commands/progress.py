"""What a person sees while a run goes on: plain lines; in a terminal a panel (panel.py)."""

import sys
from collections import deque
from pathlib import Path
from typing import Any

from rich.console import Console

from prunefl.commands.summary import spoken_bytes, spoken_seconds, summary_table
from prunefl.config import Config
from prunefl.config.losses import metric_of
from prunefl.core.objectives import METRICS
from prunefl.report.explain import find_lost

Record = dict[str, Any]


class Screen:
    """Shows each record; a base for the two ways of showing."""

    def __init__(self, config: Config, console: Console, folder: Path = Path()) -> None:
        self.config, self.console, self.folder = config, console, folder
        self.accuracy: float | None = None
        self.metric = METRICS[metric_of(config)]
        self.at_clients: Record | None = None
        self.paces: deque[float] = deque(maxlen=20)

    def show(self, record: Record) -> None:
        """Show one record."""
        self.accuracy = record.get("accuracy", record.get("score", self.accuracy))
        self.at_clients = record.get("evaluation", self.at_clients)
        if record["kind"] == "round":
            self.paces.append(record["wall_seconds"])
        elif lost := find_lost(record):
            self.say(lost)

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
            worst = f" (worst tenth {found['worst_tenth']:.2%})" if "worst_tenth" in found else ""
            words = f"{found['accuracy']:.2%}{worst}"
            at_clients = {f"at {found['clients']} clients": words}
        return {
            **({} if self.accuracy is None and at_clients else {self.metric.words: self._judged()}),
            **at_clients,
            "loss": f"{record['loss']:.4f}" if "loss" in record else "-",
            **({"epsilon": f"{record['privacy']['epsilon']:.4g}"} if "privacy" in record else {}),
            "density": f"{record['density']:.1%}",
            "simulated": spoken_seconds(total["seconds"]),
            "wall": spoken_seconds(total["wall_seconds"]),
            "sent": spoken_bytes(total["bytes_up"] + total["bytes_down"]),
            "left": self.time_left(record),
        }

    def _judged(self) -> str:
        return "-" if self.accuracy is None else self.metric.spoken(self.accuracy)

    def time_left(self, record: Record) -> str:
        """Return how long the rest will take at the pace of the last rounds."""
        if not self.paces:
            return "-"
        pace = sum(self.paces) / len(self.paces)
        return spoken_seconds(pace * (self.config.run.rounds - record.get("round", 0)))

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
