"""How much of a simulated round of PruneFL is arithmetic, and what a second worker gives.

Conv-2 on FEMNIST at 20 % density, 10 clients, 5 steps of 20 samples each, by plan, one thread a worker. In kernels
counts what the executor computes of a step: forward, backward, loss, importance and SGD; all else (batches, masks,
messages, averages, records) is the rest of the wall time. Runs with one worker and with two take turns.

Run: python benchmarks/round_in_kernels.py DIR [ROUNDS] [TIMES], DIR as `prunefl data get femnist` makes it.
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prunefl import _kernels
from prunefl import config as settings
from prunefl.commands.configs import preset
from prunefl.runs.api import run_config
from prunefl.runs.records import Record
from prunefl.system.instructions import spoken_kernels
from prunefl.system.memory import keep_freed_memory

STEP = ("differentiate", "update", "update_by_sgd", "update_by_adam", "pull", "squared_norm")
SKIPPED = 2
"""Rounds at the start, in which buffers and patterns are made."""

Executor = _kernels.Executor
lock = threading.Lock()
spent = 0.0


class Timed:
    """An executor that adds up the seconds of its steps."""

    def __init__(self, *given: Any) -> None:
        self._executor = Executor(*given)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._executor, name)
        return _timed(found) if name in STEP else found


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        global spent
        started = time.perf_counter()
        try:
            return function(*given)
        finally:
            with lock:
                spent += time.perf_counter() - started

    return call


def measure(folder: Path, rounds: int, workers: int) -> tuple[float, float, float]:
    """Return a round's seconds, the share of them that is in kernels, and the density."""
    config = settings.load(
        preset("femnist"),
        [
            f"data.dir={folder}",
            "run.method=further-only",
            "run.backend=native",
            f"run.workers={workers}",
            f"run.rounds={rounds}",
            f"run.eval_every={rounds}",
            "pruning.density_limit=0.2",
        ],
    )
    marks: list[tuple[float, float, float]] = []

    def note(record: Record) -> None:
        if record["kind"] == "round":
            marks.append((time.perf_counter(), spent, record["density"]))

    run_config(config, None, on_record=note)
    # the last round evaluates, too
    first, last = marks[SKIPPED - 1], marks[-2]
    seconds = last[0] - first[0]
    return seconds / (len(marks) - 1 - SKIPPED), (last[1] - first[1]) / seconds, last[2]


def main() -> None:
    """Measure by turns and print medians."""
    folder = Path(sys.argv[1])
    rounds, times = (int(word) for word in [*sys.argv[2:], "20", "3"][:2])
    keep_freed_memory()
    _kernels.Executor = Timed
    found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for _ in range(times):
        for workers, each in found.items():
            each.append(measure(folder, rounds, workers))
            seconds, share, density = each[-1]
            kernels = f", {share:.1%} in kernels" if workers == 1 else ""
            print(f"{workers} workers: {seconds:.3f} s a round at {density:.1%}{kernels}", flush=True)
    shares = statistics.median(share for _, share, _ in found[1])
    one, two = (statistics.median(seconds for seconds, _, _ in found[workers]) for workers in (1, 2))
    print(f"{spoken_kernels()}: {shares:.1%} in kernels; two workers {one / two:.2f}x one")


if __name__ == "__main__":
    main()
