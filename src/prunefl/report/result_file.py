"""A result as a small file that others can check: what a method came to on a task, seed by seed, signed by a hash.

Whoever has the run folders can make it again, number by number; whoever has only the file sees whether it was edited.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prunefl.config.settings import flat
from prunefl.core.objectives import METRICS
from prunefl.report.runs import RecordedRun, find_runs
from prunefl.runs.records import cost_to_reach
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically

FORMAT = "prunefl result 1"

LARGEST_FILE = 1 << 20
"""Of a result file; one of ten seeds has a few kB."""

COSTS = ("seconds", "wall_seconds", "bytes", "flops")

TASK = ("data", "transforms", "model", "training", "evaluation", "time", "fleet")
"""Sections of a config that say what the task is; the others are the method's own."""

RATE = (
    "training.learning_rate",
    "training.pace",
    "training.pace_rounds",
    "training.schedule",
    "training.decay",
    "training.decay_rounds",
    "training.decay_stairs",
    "training.final_rate",
    "training.warmup_rounds",
)
"""How fast a method learns, which every one may choose for itself."""

OWN = ("data.dir", "data.cache", "model.init_seed", *RATE)
"""Settings of these sections that are not the task's: where files are, and how fast a method learns."""

DENSITY, MASKS = "pruning.density", "pruning.masks"

Result = dict[str, Any]


def make_result(
    folders: Sequence[Path], task: str, targets: Sequence[float], command: str, alone: bool = True
) -> Result:
    """Return the result of one method, from the folders of its finished runs, one a seed.

    Args:
        alone: whether nothing else ran beside them; else their wall times say nothing and are left out.

    Raises:
        PruneFLError: the runs do not belong together, or a seed is missing.
    """
    runs, notes = find_runs(folders)
    if notes:
        raise PruneFLError(f"a result has only whole runs: {notes[0]}")
    for run in runs:
        if not run.finished or run.notes:
            raise PruneFLError(
                f"{run.folder}: {'; '.join(run.notes) or 'unfinished'}; a result has whole runs only"
            )
    for what, values in {
        "methods": {run.method for run in runs},
        "versions of prunefl": {str(run.header.get("version")) for run in runs},
        "tasks": {task_digest(run.config) for run in runs},
        "settings": {json.dumps(own_settings(run.config) | {DENSITY: 0}, sort_keys=True) for run in runs},
    }.items():
        if len(values) > 1:
            raise PruneFLError(f"runs of different {what} are no result of one: {', '.join(sorted(values))}")
    first, by_seed = runs[0], {run.seed: run for run in runs}
    if len(by_seed) < len(runs):
        raise PruneFLError("two runs have the same seed: one run a seed makes a result")
    result = {
        "format": FORMAT,
        "task": task,
        "task_digest": task_digest(first.config),
        "method": first.method,
        "settings": own_settings(first.config) | {DENSITY: _shared_density(runs)},
        "version": str(first.header.get("version")),
        "command": command,
        "alone": alone,
        "targets": sorted(targets),
        "seeds": {str(seed): measure(by_seed[seed], sorted(targets), alone) for seed in sorted(by_seed)},
    }
    return check_result(result | {"digest": sign(result)}, "the result")


def _shared_density(runs: Sequence[RecordedRun]) -> float:
    """Return the density that the method was told; 0 where it was none, or each seed another run's."""
    told = {float(run.config.get("pruning", {}).get("density", 0.0)) for run in runs}
    return told.pop() if len(told) == 1 else 0.0


def measure(run: RecordedRun, targets: Sequence[float], alone: bool) -> dict[str, Any]:
    """Return what a run came to: its delivered model, its whole cost, and the cost of being at each target first."""
    metric = METRICS[str(run.header.get("metric", "accuracy"))]
    reached = {f"{target:g}": cost_to_reach(run.rounds, target, metric) for target in targets}
    return {
        "score": run.delivered,
        "density": run.rounds[-1]["density"],
        "rounds": run.rounds[-1]["round"],
        **_costs(run.rounds[-1], alone),
        "machine": str(run.header.get("machine", "")),
        "reached": {
            t: record and {"rounds": record["round"], **_costs(record, alone)}
            for t, record in reached.items()
        },
    }


def _costs(record: Mapping[str, Any], alone: bool) -> dict[str, float | None]:
    total = record["total"] | ({} if alone else {"wall_seconds": None})
    found = {**total, "bytes": total["bytes_up"] + total["bytes_down"]}
    return {name: found.get(name) for name in COSTS}


def task_digest(config: Mapping[str, Any]) -> str:
    """Return a name for what every method of a task has in common: data, network, steps, devices, rounds."""
    run = config.get("run", {})
    kept = {key: value for key, value in flat({s: config.get(s, {}) for s in TASK}).items() if key not in OWN}
    kept |= {"run.rounds": run.get("rounds"), "run.eval_every": run.get("eval_every")}
    return hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=8).hexdigest()


def own_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a method chose for itself."""
    mine = {name: config.get("training", {}).get(name.partition(".")[2]) for name in RATE}
    tables = {
        section: config.get(section, {})
        for section in ("pruning", "initial", "importance", "wire", "optimiser")
    }
    settings = mine | flat(tables)
    # where another run's masks lie: a folder, another for every seed
    return settings | ({MASKS: "RUN"} if settings.get(MASKS) else {})


def sign(result: Mapping[str, Any]) -> str:
    """Return the hash of everything in a result but the hash itself."""
    kept = {key: value for key, value in result.items() if key != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_result(result: Result, path: Path) -> None:
    """Write a result file."""
    write_atomically(path, (json.dumps(result, indent=1, sort_keys=True) + "\n").encode())


def read_result(path: Path) -> Result:
    """Return what a result file holds.

    Raises:
        PruneFLError: it is none, was edited, or lacks a seed.
    """
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise PruneFLError(f"{path}: not a result file")
    try:
        result = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise PruneFLError(f"{path}: not a result file: not JSON") from None
    return check_result(result, str(path))


def check_result(result: Any, source: str) -> Result:
    """Return a result that has every part, its own hash and no gap in its seeds."""
    parts = ("task", "task_digest", "method", "version", "command", "alone", "targets", "seeds", "digest")
    if not isinstance(result, dict) or result.get("format") != FORMAT or not all(p in result for p in parts):
        raise PruneFLError(f"{source}: not a result file of format {FORMAT!r}")
    if result["digest"] != sign(result):
        raise PruneFLError(f"{source}: was changed after it was made: its digest is not that of its contents")
    seeds = [int(seed) for seed in result["seeds"] if seed.isdecimal()]
    missing = sorted(set(range(max(seeds, default=0) + 1)) - set(seeds))
    if missing:
        raise PruneFLError(f"{source}: seed {missing[0]} is missing; seeds are 0, 1, 2, ... without a gap")
    return result


def compare_with_records(result: Result, folders: Sequence[Path], source: str) -> None:
    """Refuse a result whose records do not give its numbers.

    Raises:
        PruneFLError: by the first number that differs.
    """
    made = make_result(folders, result["task"], result["targets"], result["command"], result["alone"])
    theirs, ours = (flatten(one, "") for one in (result, made))
    for key in sorted(theirs.keys() | ours.keys()):
        if key != "digest" and theirs.get(key) != ours.get(key):
            raise PruneFLError(f"{source}: {key}={theirs.get(key)!r}, but its records give {ours.get(key)!r}")


def flatten(value: Any, name: str) -> dict[str, Any]:
    """Return nested tables as one, seeds.0.score → value."""
    if not isinstance(value, Mapping):
        return {name: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= flatten(inner, f"{name}.{key}" if name else str(key))
    return found
