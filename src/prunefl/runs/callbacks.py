"""What may be told of every record: lines of progress, and a stop when the model gets no better."""

import sys
from collections.abc import Callable
from typing import TextIO

from prunefl.core.objectives import METRICS, Metric
from prunefl.runs.records import Record, score_of
from prunefl.system.errors import PruneFLError

OnRecord = Callable[[Record], bool | None]
"""Told of every record as soon as it is written; answers True to stop after this round. Its fields: docs/records.md."""


class Progress:
    """A line when a run begins and one for each round that was evaluated, in a notebook or a terminal.

    Args:
        rounds: how many there will be.
        out: where lines go; standard error by default.
    """

    def __init__(self, rounds: int, metric: Metric = METRICS["accuracy"], out: TextIO | None = None) -> None:
        self._rounds, self._metric, self._out = rounds, metric, out

    def begin(self, words: str, done: int) -> None:
        """Write how the data is cut, which weights are left whole and what trains; and the rounds done before."""
        self._write(words + (f"; goes on after round {done}" if done else ""))

    def __call__(self, record: Record) -> None:
        """Write the line of a record, if it has one."""
        size = f"density {record['density']:.1%}"
        if record["kind"] == "initial":
            self._write(f"initial pruning: {size}")
            return
        score = score_of(record)
        if score is not None or record["round"] == self._rounds:
            judged = "" if score is None else f"{self._metric.words} {self._metric.spoken(score)}, "
            self._write(f"round {record['round']} of {self._rounds}: {judged}{spoken_loss(record)}, {size}")

    def _write(self, line: str) -> None:
        print(line, file=self._out or sys.stderr, flush=True)


def spoken_loss(record: Record) -> str:
    """Return the training loss of a round in words, or epsilon where clients do not tell their losses."""
    if "loss" in record:
        return f"loss {record['loss']:.4f}"
    return f"epsilon {record['privacy']['epsilon']:.4g}"


class EarlyStopping:
    """Stops a run when so many evaluations in a row were no better than the best one before; give it as `on_record`.

    Args:
        patience: how many.
        metric: by which the task is judged, one of prunefl.core.objectives.METRICS.
        least: by how much an evaluation has to be better to count.
    """

    def __init__(self, patience: int, metric: str = "accuracy", least: float = 0.0) -> None:
        if patience < 1:
            raise PruneFLError(f"EarlyStopping: patience={patience}, must be >= 1")
        if metric not in METRICS:
            raise PruneFLError(f"EarlyStopping: metric={metric!r}, must be one of {', '.join(METRICS)}")
        self._patience, self._metric, self._least = patience, METRICS[metric], least
        self.best: float | None = None
        self.waited = 0

    def __call__(self, record: Record) -> bool:
        """Return whether to stop after this record's round."""
        score = score_of(record)
        if score is None:
            return False
        if ("score" in record) != (self._metric.name != "accuracy"):
            # of another task: less may be better there
            raise PruneFLError(
                f"EarlyStopping: metric={self._metric.name!r}, but the task is not judged by it; give its own metric"
            )
        gain = 0.0 if self.best is None else (score - self.best) * (1 if self._metric.higher else -1)
        if self.best is None or gain > self._least:
            self.best, self.waited = score, 0
        else:
            self.waited += 1
        return self.waited >= self._patience


def all_told(*callbacks: OnRecord | None) -> OnRecord:
    """Return one callback that tells all of them; it answers True if any does."""
    there = [callback for callback in callbacks if callback is not None]

    def tell(record: Record) -> bool:
        # all of them, also those after one that stops
        answers = [callback(record) for callback in there]
        return any(answers)

    return tell
