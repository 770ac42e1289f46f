"""The report's tables: what they say. How they are written is in `formats`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from prunefl.report.costs import EVALUATION, INITIAL, PARTS, percent_off, predicted_and_charged, split_seconds
from prunefl.report.curves import AXES, Cost, judged_by
from prunefl.report.figures import unit_for
from prunefl.report.layers import densities_at, layer_sizes
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import Estimate, estimate
from prunefl.report.study import Study, Variant
from prunefl.runs.records import cost_to_reach, final_accuracy, final_score, mean_accuracy


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


def spoken(value: Estimate, digits: int = 2) -> str:
    """Return '85.07 ± 0.31', or '85.07' for a single seed."""
    return f"{value.mean:,.{digits}f}" + (f" ± {value.half:,.{digits}f}" if value.half is not None else "")


def summary_table(study: Study) -> Table:
    """Return each variant's final accuracy, density and whole cost."""
    units = [unit_for(_largest(study, cost), kinds) for _, _, kinds, cost in AXES]
    names = ("Simulated time", "", "Bytes", "FLOPs per client", "Wall time")
    shown = [place for place in range(len(AXES)) if names[place]]
    rows, finals, metric = [], {}, judged_by(study.variants)
    words = "Accuracy (%)" if metric.name == "accuracy" else metric.words + (" (%)" if metric.percent else "")
    for number, variant in enumerate(study.variants):
        score = _over_seeds(variant, lambda run: final_score(run.rounds))
        if score and variant.finished:
            finals[number] = score.mean if metric.higher else -score.mean
        density = _over_seeds(variant, lambda run: 100 * float(run.rounds[-1]["density"]))
        costs = [_over_seeds(variant, _whole_cost(AXES[p][3], units[p][1])) for p in shown]
        mean = _over_seeds(variant, lambda run: mean_accuracy(run.rounds))
        judged = _percent(score) if metric.percent else (spoken(score, 4) if score else "–")
        cells = [judged, _percent(mean), spoken(density, 1) if density else "–"]
        cells += [spoken(cost, 2) if cost else "–" for cost in costs]
        rows.append((variant.label, str(len(variant.runs)), *cells))
    costs_named = [f"{names[p]} ({units[p][0]})" for p in shown]
    return Table(
        "summary",
        "Final accuracy and cost",
        "Accuracy, or the task's own metric, is that of the model delivered, at the last evaluation; the mean accuracy "
        "over the last tenth of the evaluations stands beside it. ± is the 95 % confidence interval over seeds. "
        "Costs are of the whole run, initial pruning included.",
        ("Method", "Seeds", words, "Mean accuracy of last tenth (%)", "Density (%)", *costs_named),
        tuple(rows),
        frozenset((place, 2) for place in finals if finals[place] == max(finals.values())),
    )


def _percent(share: Estimate | None) -> str:
    if share is None:
        return "–"
    return spoken(Estimate(100 * share.mean, share.half and 100 * share.half, 0))


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
        "The last evaluation on samples that clients hold out and never train on; ± is the 95 % confidence interval "
        "over seeds. The worst tenth is the mean over the tenth of the clients at which accuracy is lowest.",
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


def _largest(study: Study, cost: Cost) -> float:
    return max(cost(run.rounds[-1]) for variant in study.variants for run in variant.runs)


def _whole_cost(cost: Cost, scale: float) -> Callable[[RecordedRun], float | None]:
    return lambda run: cost(run.rounds[-1]) / scale


def _over_seeds(variant: Variant, measure: Callable[[RecordedRun], float | None]) -> Estimate | None:
    values = [value for run in variant.runs if (value := measure(run)) is not None]
    return estimate(values) if values else None


def default_targets(study: Study) -> list[float]:
    """Return the two highest tenths (or twentieths, of a weak result) below the best final accuracy."""
    if judged_by(study.variants).name != "accuracy":
        return sorted({float(study.config.get("run", {}).get("target_score", 0.0))} - {0.0})
    finals = [final_accuracy(run.rounds) or 0.0 for v in study.variants for run in v.runs]
    step = 10 if max(finals) > 0.25 else 5
    highest = int(100 * max(finals) - 0.5) // step * step
    asked = [float(study.config.get("run", {}).get("target_accuracy", 0.0))]
    return sorted({target / 100 for target in (highest - step, highest) if target > 0} | set(asked) - {0.0})


def target_tables(study: Study, targets: Sequence[float]) -> list[Table]:
    """Return, for each target, the rounds, time, bytes and FLOPs until an evaluation first reached it."""
    return [_target_table(study, target) for target in targets]


def _target_table(study: Study, target: float) -> Table:
    metric = judged_by(study.variants)
    reached = {
        variant.key: [r for run in variant.runs if (r := cost_to_reach(run.rounds, target, metric))]
        for variant in study.variants
    }
    goal = f"{100 * target:g} % {metric.words}" if metric.percent else f"{metric.words} {target:g}"
    columns, cells, best = [], [], set()
    for place in (1, 0, 2, 3):
        _, axis, kinds, cost = AXES[place]
        means = {key: estimate(list(map(cost, rs))) for key, rs in reached.items() if rs}
        unit, scale = unit_for(max((e.mean for e in means.values()), default=0.0), kinds)
        columns.append(f"{axis} ({unit})" if unit else axis)
        cells.append([_reached_cell(means.get(v.key), scale, 0 if place == 1 else 2) for v in study.variants])
        # where a seed did not arrive, the mean is one of lucky seeds
        sure = {n: means[v.key].mean for n, v in enumerate(study.variants) if _all_reached(v, reached[v.key])}
        best |= {(place, len(columns) + 1) for place in sure if sure[place] == min(sure.values())}
    rows = [
        (v.label, f"{len(reached[v.key])} of {len(v.runs)}", *(column[place] for column in cells))
        for place, v in enumerate(study.variants)
    ]
    return Table(
        f"target-{100 * target:g}".replace(".", "_"),
        f"Cost to reach {goal}",
        "Until the first evaluation that is as good as the target; mean ± 95 % interval over the seeds that did. "
        "Time counts the slowest client of each round, bytes all clients, FLOPs one client.",
        ("Method", "Seeds that reached it", *columns),
        tuple(rows),
        frozenset(best),
    )


def _all_reached(variant: Variant, reached: Sequence[object]) -> bool:
    return variant.finished and len(reached) == len(variant.runs)


def _reached_cell(value: Estimate | None, scale: float, digits: int) -> str:
    if value is None:
        return "–"
    half = value.half / scale if value.half is not None else None
    return spoken(Estimate(value.mean / scale, half, value.count), digits)


def layer_table(study: Study) -> Table:
    """Return each layer's density at the end."""
    sizes = layer_sizes(study)
    last = [densities_at(variant, -1, sizes) for variant in study.variants]
    rows = [
        (name.removesuffix(".weight"), f"{size:,}", *(f"{100 * column[place]:.1f}" for column in last))
        for place, (name, size) in enumerate(sizes.items())
    ]
    return Table(
        "layers",
        "Density of each layer at the end (%)",
        "Live share of the layer's weights after the last round, mean over seeds.",
        ("Layer", "Weights", *(variant.label for variant in study.variants)),
        tuple(rows),
    )


def split_table(study: Study) -> Table:
    """Return the simulated time by part, of a mean round, and how well T(M) foresaw it."""
    rows = []
    evaluated = any("evaluation" in r for v in study.variants for run in v.runs for r in run.rounds)
    parts = (*PARTS, EVALUATION) if evaluated else PARTS
    for variant in study.variants:
        splits = [(split_seconds(run), len(run.rounds)) for run in variant.runs]
        once = estimate([split[INITIAL] for split, _ in splits])
        means = [estimate([split[part] / rounds for split, rounds in splits]) for part in parts]
        pairs = [pair for run in variant.runs for pair in predicted_and_charged(run)]
        cells = (spoken(mean) for mean in (once, *means))
        rows.append((variant.label, *cells, f"{percent_off(pairs):.1f}" if pairs else "–"))
    return Table(
        "split",
        "Where the time goes",
        "Simulated seconds: initial pruning once, the other parts for a mean round at its slowest client. "
        "T(M) is compared with the simulated clock over rounds in which clients only trained, under known masks; "
        "– where there are none.",
        ("Method", *(f"{part.capitalize()} (s)" for part in (INITIAL, *parts)), "T(M) off by (%)"),
        tuple(rows),
    )
