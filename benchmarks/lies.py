"""One liar of five: what each lie costs in accuracy and changes in density, with the default and with robust settings.

Run: python benchmarks/lies.py OUT.csv SEED[,SEED...] SETTINGS[,SETTINGS...] [LIE ...]
     python benchmarks/lies.py --table OUT.csv

Digits, lenet300100, five clients, IID and Dirichlet(0.5); client 0 lies in every round in which it is asked. The lies
are told on the wire, by a simulated client that packs them as an honest one packs its update.
"""

import csv
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from prunefl import config as settings
from prunefl import wire
from prunefl.config import Config
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from prunefl.engines.simulator import Simulator
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState
from prunefl.runs import api
from prunefl.runs.runner import Run

LIAR = 0
BASE: dict[str, Any] = {
    "run": {"rounds": 45, "eval_every": 5, "workers": 1},
    "data": {"name": "digits", "clients": 5},
    "model": {"name": "lenet300100"},
    "training": {"learning_rate": 0.05},
    "pruning": {"interval": 15, "fraction": 0.3, "half_life": 10_000},
    "initial": {"interval": 10, "max_passes": 80, "fresh": False, "warmup_passes": 0},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "robust": {"server": {"aggregate": "trimmed_mean", "trim": 0.2, "max_opposition": 0.15}},
    "one prunes first": {"initial": {"clients": 1}},
    "no bounds": {
        "server": {"max_change": 0.0, "max_opposition": 0.0, "max_statistic": 0.0},
        "training": {"weight_cap": 0.0},
        "initial": {"clients": 1},
    },
}

Change = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def on_weights(reply: Reply, simulator: "LyingSimulator", start: SparseState, change: Change) -> Reply:
    """Return the reply with other weights under the same masks; initial pruning is another lie's matter."""
    if not reply.round:
        return reply
    sent = wire.unpack(reply.model, simulator.template, {start.masks.digest: start.masks})
    values = {name: change(start.values[name], value) for name, value in sent.values.items()}
    state = SparseState({name: np.asarray(value, np.float32) for name, value in values.items()}, sent.masks)
    return replace(reply, model=wire.pack(state, known=start.masks))


def flip(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    return on_weights(reply, simulator, start, lambda before, after: before - (after - before))


def times_ten(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    return on_weights(reply, simulator, start, lambda before, after: before + 10 * (after - before))


def random_weights(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    rng = np.random.default_rng(reply.round)
    return on_weights(reply, simulator, start, lambda before, after: rng.standard_normal(after.shape))


def huge_weights(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    return on_weights(reply, simulator, start, lambda before, after: np.full(after.shape, 3e38))


def importance(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    if not reply.statistic:
        return reply
    lie = {name: np.full(shape, 1e30, np.float32) for name, shape in simulator.template.parameters.items()}
    return replace(reply, statistic=wire.pack_importance(lie))


def sample_count(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    return replace(reply, num_samples=10**12)


def prune_first(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    """Random weights under random masks of a twentieth of the weights, with an honest client's account of it."""
    if reply.round:
        return reply
    rng = np.random.default_rng(0)
    masks = Masks({name: rng.random(shape) < 0.05 for name, shape in start.masks.shapes.items()})
    noise = {n: rng.standard_normal(start.dense(n).shape).astype(np.float32) for n in start.values}
    return replace(reply, model=wire.pack(SparseState.from_dense(noise, masks)))


def keep_all(reply: Reply, simulator: "LyingSimulator", start: SparseState) -> Reply:
    """Nothing pruned, nothing trained."""
    return reply if reply.round else replace(reply, model=wire.pack(start))


LIES: dict[str, Callable[[Reply, "LyingSimulator", SparseState], Reply]] = {
    "none": lambda reply, simulator, start: reply,
    "flip": flip,
    "times ten": times_ten,
    "random weights": random_weights,
    "weights 3e38": huge_weights,
    "importance 1e30": importance,
    "samples 1e12": sample_count,
    "prune first: random": prune_first,
    "prune first: nothing": keep_all,
}


class LyingSimulator(Simulator):
    """Carries replies, and changes those of the liar."""

    lie = staticmethod(LIES["none"])

    @property
    def template(self) -> Any:
        return self._setup.network.template

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        for reply in super().carry(state, orders):
            yield self.lie(reply, self, state.sparse) if reply.client == LIAR else reply


def configure(partition: str, seed: int, chosen: Mapping[str, Any]) -> Config:
    tables = {name: dict(table) for name, table in BASE.items()}
    tables["data"]["partition"] = partition
    tables["run"]["seed"] = seed
    for name, table in chosen.items():
        tables[name] = {**tables.get(name, {}), **table}
    return settings.from_tables(tables)


def measure(out: Path, seeds: list[int], names: list[str], lies: list[str]) -> None:
    """Run all that is not in the file yet, and add a line for each."""
    api.Simulator = LyingSimulator  # type: ignore[misc,attr-defined]
    done = {tuple(row[:4]) for row in read(out)}
    for seed in seeds:
        for partition in ("iid", "dirichlet"):
            for name in names:
                for lie in lies:
                    key = (partition, str(seed), name, lie)
                    if key in done:
                        continue
                    LyingSimulator.lie = staticmethod(LIES[lie])
                    row = [*key, *describe(api.run_config(configure(partition, seed, SETTINGS[name]), None))]
                    with out.open("a", newline="") as file:
                        csv.writer(file).writerow(row)
                    print(*row, flush=True)


def describe(run: Run) -> list[str]:
    """Return accuracy, density, how often an honest client was held to a bound, and a digest of the weights."""
    bounded = sum(int(client) != LIAR for record in run.records for client in record.get("bounded", {}))
    digest = hashlib.blake2b(digest_size=6)
    for value in run.state.values.values():
        digest.update(value.tobytes())
    density = run.records[-1]["density"]
    return [f"{run.accuracy:.4f}", f"{density:.4f}", str(bounded), digest.hexdigest()]


def read(path: Path) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.reader(file))


def print_table(path: Path) -> None:
    """Print accuracy and density, mean over seeds, and what each lie costs at worst."""
    found = {tuple(row[:4]): (float(row[4]), float(row[5])) for row in read(path)}
    print(
        "| data | settings | lie | accuracy | points lost: mean (worst seed) | density | its change: mean (worst) |"
    )
    print("|---|---|---|---|---|---|---|")
    for partition in ("iid", "dirichlet"):
        for name in SETTINGS:
            for lie in LIES:
                seeds = sorted(key[1] for key in found if (key[0], *key[2:]) == (partition, name, lie))
                pairs = [
                    (found[partition, seed, name, lie], found.get((partition, seed, name, "none")))
                    for seed in seeds
                ]
                if not pairs or any(honest is None for _, honest in pairs):
                    continue
                lost = [100 * (honest[0] - lied[0]) for lied, honest in pairs if honest]
                moved = [lied[1] - honest[1] for lied, honest in pairs if honest]
                print(
                    f"| {partition} | {name} | {lie} | {mean(lied[0] for lied, _ in pairs):.3f} "
                    f"| {mean(lost):+.1f} ({max(lost):+.1f}) | {mean(lied[1] for lied, _ in pairs):.3f} "
                    f"| {mean(moved):+.3f} ({max(moved, key=abs):+.3f}) |"
                )


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print_table(Path(sys.argv[2]))
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        chosen = [int(seed) for seed in sys.argv[2].split(",")]
        measure(Path(sys.argv[1]), chosen, sys.argv[3].split(","), sys.argv[4:] or list(LIES))
