"""The report's tables: what they say. How they are written is in `formats`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from prunefl.core.objectives import Metric
from prunefl.report.axes import Cost, axes_of
from prunefl.report.costs import EVALUATION, INITIAL, PARTS, percent_off, predicted_and_charged, split_seconds
from prunefl.report.curves import judged_by
from prunefl.report.layers import densities_at, layer_label, layer_sizes
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import Estimate, digits_for, estimate, spoken
from prunefl.report.study import Study, Variant
from prunefl.runs.records import cost_to_reach, mean_accuracy


@dataclass(frozen=True)
class Table:
    """Rows of text; the first column names the row.

    Attributes:
        best: for each row, which columns hold the column's best value.
    """

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()


SEEDS = "± is the 95 % confidence interval over seeds; (a–b) is their range, where two or scattered ones allow none."


def summary_table(study: Study) -> Table:
    """Return each variant's final accuracy, or the task's own metric, density and whole cost."""
    axes = [axis for axis in axes_of(study) if axis.unit]
    metric = judged_by(study.variants)
    factor, digits, unit = (100.0, 2, " (%)") if metric.percent else (1.0, 4, "")
    finals = [_over_seeds(v, lambda run: _times(factor, run.delivered)) for v in study.variants]
    averages = [_over_seeds(v, lambda run: _times(100.0, mean_accuracy(run.rounds))) for v in study.variants]
    density = [_over_seeds(v, lambda run: 100 * float(run.rounds[-1]["density"])) for v in study.variants]
    costs = [[_over_seeds(v, _whole_cost(axis.cost)) for v in study.variants] for axis in axes]
    finished = [e.mean for v, e in zip(study.variants, finals, strict=True) if e and v.finished]
    best = (max if metric.higher else min)(finished, default=0.0)
    return _without_empty(
        Table(
            "summary",
            f"Final {metric.words} and cost",
            f"Final {metric.words} is that of the model which the run delivers, the last that was evaluated. "
            f"Costs are of the whole run, initial pruning included. {SEEDS if _several(study) else ''}".strip(),
            (
                "Method",
                "Seeds",
                f"Final {metric.words}{unit}",
                "Average over the last tenth of evaluations (%)",
                "Density (%)",
                *(f"{axis.name.replace(', all clients', '')} ({axis.unit})" for axis in axes),
            ),
            tuple(
                (variant.label, str(len(variant.runs)), *cells)
                for variant, *cells in zip(
                    study.variants,
                    _cells(finals, digits),
                    _cells(averages, 2),
                    _cells(density, 1),
                    *map(_cells, costs),
                    strict=True,
                )
            ),
            frozenset(
                (place, 2)
                for place, e in enumerate(finals)
                if e and study.variants[place].finished and e.mean == best
            ),
        )
    )


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _several(study: Study) -> bool:
    return any(len(variant.runs) > 1 for variant in study.variants)


def _cells(values: Sequence[Estimate | None], digits: int | None = None) -> list[str]:
    """Return a column; with three significant digits unless told."""
    if digits is None:
        digits = digits_for(max((e.mean for e in values if e), default=0.0))
    return [spoken(value, digits) if value else "–" for value in values]


def _without_empty(table: Table) -> Table:
    """Return the table without columns in which no row has anything but nothing or zero."""
    kept = [
        place
        for place in range(len(table.columns))
        if not place or any(any(digit in row[place] for digit in "123456789") for row in table.rows)
    ]
    places = {old: new for new, old in enumerate(kept)}
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
        best=frozenset((row, places[place]) for row, place in table.best if place in places),
    )


def clients_table(study: Study) -> Table | None:
    """Return how the last evaluation at clients spread over them, or None where no variant has one."""
    rows = []
    for variant in study.variants:
        last = [found for run in variant.runs if (found := _last_evaluation(run))]
        if not last:
            continue
        spreads = [_spread(found) for found in last]
        cells = [spoken(estimate([100 * spread[place] for spread in spreads])) for place in range(5)]
        counts = [spoken(estimate([float(f[key]) for f in last]), 0) for key in ("clients", "samples")]
        rows.append((variant.label, *counts, *cells))
    if not rows:
        return None
    return Table(
        "clients",
        "Accuracy at the clients",
        "The last evaluation on samples that clients hold out and never train on. The worst tenth is the average over "
        f"the tenth of the clients at which accuracy is lowest. {SEEDS if _several(study) else ''}".strip(),
        (
            "Method",
            "Clients",
            "Samples",
            "By samples (%)",
            "By client (%)",
            "Worst tenth (%)",
            "Median client (%)",
            "Best client (%)",
        ),
        tuple(rows),
    )


def personal_table(study: Study) -> Table | None:
    """Return by client how the final model does and how its own does, or None where no client has one."""
    before: dict[tuple[str, int], list[float]] = {}
    after: dict[tuple[str, int], list[float]] = {}
    for variant in study.variants:
        for found in filter(None, map(_last_evaluation, variant.runs)):
            for client, (right, samples) in found.get("personal", {}).items():
                first, of = found["by_client"][client]
                before.setdefault((variant.key, int(client)), []).append(100 * first / of)
                after.setdefault((variant.key, int(client)), []).append(100 * right / samples)
    shown = [variant for variant in study.variants if any(key == variant.key for key, _ in after)]
    rows = []
    for client in sorted({client for _, client in after}):
        pairs = [(before.get((v.key, client)), after.get((v.key, client))) for v in shown]
        cells = [spoken(estimate(values)) if values else "–" for pair in pairs for values in pair]
        rows.append((str(client), *cells))
    if not rows:
        return None
    return Table(
        "personal",
        "Personal models",
        "Accuracy (%) on each client's held-out samples: of the final model, and of the client's own, trained on from "
        "it for some steps on that client's samples under the same masks.",
        ("Client", *(f"{v.label}, {when}" for v in shown for when in ("before", "after"))),
        tuple(rows),
    )


def _last_evaluation(run: RecordedRun) -> Mapping[str, Any] | None:
    return next((record["evaluation"] for record in reversed(run.rounds) if "evaluation" in record), None)


def _spread(found: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the mean by samples, by client, of the worst tenth, the median and the best client."""
    each = sorted(right / samples for right, samples in found["by_client"].values())
    return found["accuracy"], found["client_accuracy"], found["worst_tenth"], median(each), each[-1]


def _whole_cost(cost: Cost) -> Callable[[RecordedRun], float | None]:
    return lambda run: cost(run.rounds[-1])


def _over_seeds(variant: Variant, measure: Callable[[RecordedRun], float | None]) -> Estimate | None:
    values = [value for run in variant.runs if (value := measure(run)) is not None]
    return estimate(values) if values else None


def default_targets(study: Study) -> list[float]:
    """Return the two highest tenths (or twentieths, of a weak result) below the best final accuracy."""
    if judged_by(study.variants).name != "accuracy":
        return sorted({float(study.config.get("run", {}).get("target_score", 0.0))} - {0.0})
    finals = [run.delivered or 0.0 for v in study.variants for run in v.runs]
    step = 10 if max(finals) > 0.25 else 5
    highest = int(100 * max(finals) - 0.5) // step * step
    asked = [float(study.config.get("run", {}).get("target_accuracy", 0.0))]
    return sorted({target / 100 for target in (highest - step, highest) if target > 0} | set(asked) - {0.0})


def target_tables(study: Study, targets: Sequence[float]) -> list[Table]:
    """Return, for each target, the rounds, time, bytes and FLOPs until an evaluation first reached it."""
    return [_target_table(study, target) for target in targets]


def spoken_goal(metric: Metric, target: float) -> str:
    """Return what is to be reached: '80 % accuracy', 'perplexity 12'."""
    return f"{100 * target:g} % {metric.words}" if metric.percent else f"{metric.words} {target:g}"


def _target_table(study: Study, target: float) -> Table:
    metric = judged_by(study.variants)
    reached = {
        variant.key: [r for run in variant.runs if (r := cost_to_reach(run.rounds, target, metric))]
        for variant in study.variants
    }
    columns, cells, best = [], [], set()
    axes = axes_of(study)
    for axis in (axes[1], axes[0], axes[2], axes[3]):
        means = {key: estimate(list(map(axis.cost, rs))) for key, rs in reached.items() if rs}
        columns.append(axis.label)
        cells.append(_cells([means.get(v.key) for v in study.variants], None if axis.unit else 0))
        # where a seed did not arrive, the mean is one of lucky seeds
        sure = {n: means[v.key].mean for n, v in enumerate(study.variants) if _all_reached(v, reached[v.key])}
        best |= {(place, len(columns) + 1) for place in sure if sure[place] == min(sure.values())}
    rows = [
        (v.label, f"{len(reached[v.key])} of {len(v.runs)}", *(column[place] for column in cells))
        for place, v in enumerate(study.variants)
    ]
    return Table(
        f"target-{100 * target:g}".replace(".", "_"),
        f"Cost to reach {spoken_goal(metric, target)}",
        "Until the first evaluation that is as good as the target; averages over the seeds that did. "
        "Time counts the slowest client of each round, bytes all clients, FLOPs one client. "
        f"{SEEDS if _several(study) else ''}".strip(),
        ("Method", "Seeds that reached it", *columns),
        tuple(rows),
        frozenset(best),
    )


def _all_reached(variant: Variant, reached: Sequence[object]) -> bool:
    return variant.finished and len(reached) == len(variant.runs)


def layer_table(study: Study) -> Table:
    """Return each layer's density at the end."""
    sizes = layer_sizes(study)
    last = [densities_at(variant, -1, sizes) for variant in study.variants]
    rows = [
        (layer_label(study, name), f"{size:,}", *(f"{100 * column[place]:.1f}" for column in last))
        for place, (name, size) in enumerate(sizes.items())
    ]
    return Table(
        "layers",
        "Density of each layer at the end (%)",
        "Live share of the layer's weights after the last round"
        f"{', average over seeds' if _several(study) else ''}.",
        ("Layer", "Weights", *(variant.label for variant in study.variants)),
        tuple(rows),
    )


def split_table(study: Study) -> Table:
    """Return the simulated time by part, of an average round, and how well T(M) foresaw it."""
    parts = (*PARTS, EVALUATION)
    columns: list[list[Estimate | None]] = [[] for _ in (INITIAL, *parts)]
    off = []
    for variant in study.variants:
        splits = [(split_seconds(run), len(run.rounds)) for run in variant.runs]
        once = estimate([split[INITIAL] for split, _ in splits])
        means = [estimate([split[part] / rounds for split, rounds in splits]) for part in parts]
        for column, value in zip(columns, (once, *means), strict=True):
            column.append(value if value.high > 0 else None)
        pairs = [pair for run in variant.runs for pair in predicted_and_charged(run)]
        off.append(f"{percent_off(pairs):.1f}" if pairs else "–")
    return _without_empty(
        Table(
            "split",
            "Where the time goes",
            "Simulated seconds: initial pruning once, the other parts for an average round at its slowest client. "
            "T(M), the forecast of a round's time, is compared with the simulated clock over rounds in which clients "
            "only trained, under masks that they had.",
            ("Method", *(f"{part.capitalize()} (s)" for part in (INITIAL, *parts)), "T(M) off by (%)"),
            tuple(
                (variant.label, *cells)
                for variant, *cells in zip(study.variants, *map(_cells, columns), off, strict=True)
            ),
        )
    )
