"""The report's tables: what they say. How they are written is in `formats`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from prunefl.core.objectives import Metric
from prunefl.report.axes import Cost, axes_of
from prunefl.report.costs import EVALUATION, INITIAL, PARTS, percent_off, predicted_and_charged, split_seconds
from prunefl.report.curves import judged_by
from prunefl.report.layers import densities_at, layer_label, layer_sizes
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import Estimate, digits_for, estimate, signed, spoken
from prunefl.report.study import Study, Variant
from prunefl.runs.records import cost_to_reach, evaluations, mean_accuracy


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
    averages = [_over_seeds(v, lambda run: _times(100.0, _average(run))) for v in study.variants]
    density = [_over_seeds(v, lambda run: 100 * float(run.rounds[-1]["density"])) for v in study.variants]
    costs = [[_over_seeds(v, _whole_cost(axis.cost)) for v in study.variants] for axis in axes]
    finished = [e.mean for v, e in zip(study.variants, finals, strict=True) if e and v.finished]
    rival = next((v for v in study.usual if v.method == "conventional"), None)
    differences = [_difference(v, rival, factor, digits) for v in study.variants]
    best = (max if metric.higher else min)(finished, default=0.0)
    return _without_empty(
        Table(
            "summary",
            f"Final {metric.words} and cost",
            f"Final {metric.words} is that of the model which the run delivers, the last that was evaluated. "
            f"Costs are of the whole run, initial pruning included; its FLOPs are those of the client that does it. "
            f"{SEEDS if several(study) else ''}".strip(),
            (
                "Method",
                "Seeds",
                f"Final {metric.words}{unit}",
                f"Less {rival.label if rival else ''}, by seed{unit}",
                "Average over the last tenth of evaluations (%)",
                "Density (%)",
                *(f"{axis.name.replace(', all clients', '')} ({axis.unit})" for axis in axes),
            ),
            tuple(
                (variant.label, str(len(variant.runs)), *cells)
                for variant, *cells in zip(
                    study.variants,
                    _cells(finals, digits),
                    differences,
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


def _average(run: RecordedRun) -> float | None:
    """Return the mean accuracy over the last tenth of the evaluations; None where that is one alone, hence no mean."""
    is_mean = sum(1 for _ in evaluations(run.rounds)) > 10
    return mean_accuracy(run.rounds) if is_mean else None


def _difference(variant: Variant, rival: Variant | None, factor: float, digits: int) -> str:
    """Return what it is better or worse than conventional FL by, from seeds that both have: '-0.41 ± 0.30'."""
    if rival is None or variant is rival:
        return "–"
    theirs = {run.seed: run.delivered for run in rival.runs}
    pairs = [(run.delivered, theirs.get(run.seed)) for run in variant.runs]
    found = [factor * (a - b) for a, b in pairs if a is not None and b is not None]
    return signed(estimate(found), digits) if found else "–"


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def several(study: Study) -> bool:
    """Return whether there is more than one seed of anything."""
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
        # where a seed did not arrive, a mean would be one of lucky seeds
        means = {
            v.key: estimate(list(map(axis.cost, reached[v.key])))
            for v in study.variants
            if len(reached[v.key]) == len(v.runs)
        }
        columns.append(axis.label)
        cells.append(_cells([means.get(v.key) for v in study.variants], None if axis.unit else 0))
        sure = {n: means[v.key].mean for n, v in enumerate(study.variants) if v.finished and v.key in means}
        best |= {(place, len(columns) + 1) for place in sure if sure[place] == min(sure.values())}
    rows = [
        (v.label, f"{len(reached[v.key])} of {len(v.runs)}", *(column[place] for column in cells))
        for place, v in enumerate(study.variants)
    ]
    return Table(
        f"target-{100 * target:g}".replace(".", "_"),
        f"Cost to reach {spoken_goal(metric, target)}",
        "Until the first evaluation that is as good as the target. A method reaches it only where all its seeds do. "
        "Time counts the slowest client of each round, bytes all clients, FLOPs one client: the one that also prunes "
        "first, where one does. "
        f"{SEEDS if several(study) else ''}".strip(),
        ("Method", "Seeds that reached it", *columns),
        tuple(rows),
        frozenset(best),
    )


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
        f"{', average over seeds' if several(study) else ''}.",
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
