"""Tasks × methods from result files: one table a task, differences paired by seed, with the command of every row."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prunefl.methods import label_method
from prunefl.report.result_file import Result, read_result
from prunefl.report.statistics import FEWEST, estimate, estimate_ratio, signed, spoken
from prunefl.system.errors import PruneFLError

RIVAL = "conventional"
"""The method that others are compared with."""

UNITS = {
    "seconds": [("s", 1.0)],
    "wall_seconds": [("s", 1.0)],
    "bytes": [("GB", 1e9), ("MB", 1e6)],
    "flops": [("TFLOPs", 1e12), ("GFLOPs", 1e9)],
}
"""Of each cost, the larger first: a small network's would be nought point nothing of these."""

NAMES = {"seconds": "simulated", "wall_seconds": "wall", "bytes": "bytes", "flops": "a client computes"}


def find_results(places: Sequence[Path]) -> list[Result]:
    """Return the results of all files given, and of all *.json in folders given, in order of task and method."""
    files = [f for place in places for f in (sorted(place.glob("*.json")) if place.is_dir() else [place])]
    if not files:
        raise PruneFLError(f"{', '.join(map(str, places))}: no result files (*.json) there")
    return [read_result(file) for file in files]


def write_leaderboard(results: Sequence[Result], made_by: str) -> str:
    """Return the page, Markdown.

    Raises:
        PruneFLError: results of one task that cannot stand side by side.
    """
    tasks: dict[str, list[Result]] = {}
    for result in results:
        tasks.setdefault(str(result["task"]), []).append(result)
    parts = [HEAD.format(made_by=made_by)]
    for task, own in sorted(tasks.items()):
        _refuse_mixtures(task, own)
        tables = [_target_table(own, target) for target in own[0]["targets"]]
        parts += [f"## {task}", f"By prunefl {own[0]['version']}.", *tables, _commands(own)]
    return "\n\n".join(parts) + "\n"


HEAD = """# Leaderboard

Made by `{made_by}` from result files; nothing here is written by hand.

- Accuracy is that of the delivered model.
- Costs are those of being at the target for the first time, initial pruning and every byte included. FLOPs are of a
  client that takes part in every round, and prunes first where one does.
- A method **reaches** a target only if all its seeds do; else the cell says how many did.
- ± is the 95 % interval over seeds. Differences to conventional FL are taken seed by seed, with the interval of the
  difference; ratios are geometric means of the seeds' own.
- Rows with fewer than three seeds are marked: they have no interval.
- Wall times are of runs beside which nothing else ran; others are left out."""


def _refuse_mixtures(task: str, results: Sequence[Result]) -> None:
    """Refuse results of one task that were made by different versions, of different settings, or for other targets."""
    for key, words in {
        "version": "versions of prunefl",
        "task_digest": "settings of the task",
        "targets": "targets",
    }.items():
        found: dict[str, str] = {}
        for result in results:
            found.setdefault(str(result[key]), str(result["method"]))
        if len(found) > 1:
            said = ", ".join(f"{method} has {value}" for value, method in found.items())
            raise PruneFLError(f"task {task!r}: a mixture of {words}: {said}")
    names = [row_name(result) for result in results]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise PruneFLError(
            f"task {task!r}: two results of {twice}; a method stands once, or with another density"
        )


def row_name(result: Result) -> str:
    """Return what a row is called: the method, and the density that it was told, or told to keep to."""
    density, limit, target = (
        100 * result["settings"].get(f"pruning.{name}", 0)
        for name in ("density", "density_limit", "density_target")
    )
    if density:
        told = f", at {density:g} %"
    elif target:
        told = f", at most {limit or 100:g} to {target:g} %"
    else:
        told = f", at most {limit:g} %" if limit else ""
    return label_method(str(result["method"])) + told


def _target_table(results: Sequence[Result], target: float) -> str:
    key = f"{target:g}"
    units = {name: _unit(results, key, name) for name in UNITS}
    rival = next((result for result in results if result["method"] == RIVAL), None)
    columns = ["method", "seeds", "accuracy, %", "less conventional", "size, %", "rounds"]
    columns += [f"{NAMES[name]}, {unit}" for name, (unit, _) in units.items()]
    columns += ["simulated, of conventional", "bytes, of conventional"]
    ordered = sorted(results, key=lambda result: _sort_key(result, key))
    rows = [[*_cells(result, key, rival, units)] for result in ordered]
    lines = [columns, ["---"] * len(columns), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**To {100 * target:g} %**\n\n{table}"


def _unit(results: Sequence[Result], key: str, cost: str) -> tuple[str, float]:
    """Return the unit of a column: the first of which somebody has a tenth."""
    spent = [r[cost] for result in results for r in _reached(result, key) or [] if r[cost] is not None]
    fitting = [unit for unit in UNITS[cost] if not spent or max(spent) >= unit[1] / 10]
    return (fitting or UNITS[cost][-1:])[0]


def _sort_key(result: Result, key: str) -> tuple[bool, float]:
    """Return the order of rows: who reaches the target with all seeds by simulated time, the others by accuracy."""
    reached = _reached(result, key)
    if reached is None:
        return True, -estimate([seed["score"] for seed in result["seeds"].values()]).mean
    return False, estimate([r["seconds"] for r in reached]).mean


def _reached(result: Result, key: str) -> list[Mapping[str, Any]] | None:
    """Return what it cost each seed to be there, or None where not all are."""
    found = [seed["reached"][key] for seed in result["seeds"].values()]
    return found if all(found) else None


def _cells(
    result: Result, key: str, rival: Result | None, units: Mapping[str, tuple[str, float]]
) -> list[str]:
    seeds = result["seeds"]
    few = "" if len(seeds) >= FEWEST else f" of {FEWEST}"
    accuracy, size = (estimate([100 * seed[k] for seed in seeds.values()]) for k in ("score", "density"))
    cells = [
        row_name(result),
        f"{len(seeds)}{few}",
        spoken(accuracy, 1),
        _difference(result, rival),
        spoken(size, 1),
    ]
    reached = _reached(result, key)
    if reached is None:
        there = sum(bool(seed["reached"][key]) for seed in seeds.values())
        return [*cells, f"{there} of {len(seeds)} seeds", *["–"] * (len(UNITS) + 2)]
    cells.append(spoken(estimate([r["rounds"] for r in reached]), 0))
    for name, (_, unit) in units.items():
        spent = [r[name] / unit for r in reached if r[name] is not None]
        cells.append(spoken(estimate(spent), 0 if unit == 1.0 else 2) if spent else "–")
    return [*cells, _ratio(result, rival, key, "seconds"), _ratio(result, rival, key, "bytes")]


def _pairs(
    result: Result, rival: Result | None, value: Callable[[Mapping[str, Any]], float | None]
) -> list[tuple[float, float]]:
    """Return this method's and conventional FL's value for each seed that both have."""
    if rival is None or rival is result:
        return []
    both = [
        (value(seed), value(rival["seeds"][n])) for n, seed in result["seeds"].items() if n in rival["seeds"]
    ]
    return [(a, b) for a, b in both if a is not None and b is not None]


def _difference(result: Result, rival: Result | None) -> str:
    pairs = _pairs(result, rival, lambda seed: 100 * seed["score"])
    return signed(estimate([a - b for a, b in pairs]), 1) + _few(pairs) if pairs else ""


def _ratio(result: Result, rival: Result | None, key: str, cost: str) -> str:
    if rival is None or _reached(rival, key) is None:
        return ""
    pairs = _pairs(result, rival, lambda seed: seed["reached"][key][cost])
    if not pairs:
        return ""
    ratio = estimate_ratio(pairs)
    between = f" ({ratio.low:.2f}–{ratio.high:.2f})" if ratio.count > 1 else ""
    return f"{ratio.mean:.2f}{between}{_few(pairs)}"


def _few(pairs: Sequence[tuple[float, float]]) -> str:
    """Return a mark for what too few seeds of both say."""
    return f", {len(pairs)} of {FEWEST} seeds" if len(pairs) < FEWEST else ""


def _commands(results: Sequence[Result]) -> str:
    rows = [f"- {row_name(r)}: `{r['command']}`; seeds {', '.join(r['seeds'])}" for r in results]
    return "\n".join(["Commands:", "", *sorted(rows)])
