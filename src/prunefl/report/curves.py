"""Accuracy against everything it costs, and the model's size against rounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prunefl.core.objectives import Metric
from prunefl.report.axes import Axis, Cost, axes_of
from prunefl.report.figures import COUNT, Curve, Line, Lines, thinned, unit_for
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import FEWEST, Estimate, estimate
from prunefl.report.study import Study, Variant
from prunefl.runs.records import clients_accuracy_of, metric_of, score_of

MOST_POINTS = 400
BAND = "Mean over seeds; the band is the 95 % confidence interval."
EACH = "One curve for each seed: two do not make an interval."
Record = Mapping[str, Any]
Runs = Sequence[RecordedRun]
Accuracy = Callable[[Record], float | None]


def accuracy_figures(
    study: Study, variants: Sequence[Variant], prefix: str = "accuracy", title: str = ""
) -> list[Lines]:
    """Return accuracy against each kind of cost, one figure per axis: on the test set, or else at the clients.

    Where the task has a metric of its own, that one.
    """
    metric = judged_by(variants)
    tested = any(
        {"accuracy", "score"} & record.keys() for v in variants for run in v.runs for record in run.rounds
    )
    words = capital(metric.words)
    label = (f"Test {metric.words}" if tested else f"{words} at the clients") + (
        " (%)" if metric.percent else ""
    )

    def name(axis: str) -> str:
        return title or f"{words} against {axis}"

    return [_figure(axis, variants, prefix, name, label, score_of) for axis in axes_of(study)]


def judged_by(variants: Sequence[Variant]) -> Metric:
    """Return the metric of the task, which is one for all that is compared."""
    return metric_of([run.header for variant in variants for run in variant.runs])


def capital(words: str) -> str:
    """Return words as a title begins with them."""
    return words[:1].upper() + words[1:]


def clients_figures(study: Study, variants: Sequence[Variant]) -> list[Lines]:
    """Return accuracy at the clients, by samples, against each kind of cost; its curves are empty where none is."""
    words = "Accuracy at the clients"

    def name(axis: str) -> str:
        return f"{words} against {axis}"

    return [
        _figure(axis, variants, "clients", name, f"{words} (%)", clients_accuracy_of)
        for axis in axes_of(study)
    ]


def _figure(
    axis: Axis,
    variants: Sequence[Variant],
    prefix: str,
    title: Callable[[str], str],
    label: str,
    accuracy: Accuracy,
) -> Lines:
    percent = "%" in label
    curves = [
        _accuracy_curve(variant, part, runs, axis.cost, accuracy, 100.0 if percent else 1.0)
        for variant in variants
        for part, runs in in_lines(variant)
    ]
    return Lines(
        name=f"{prefix}-{axis.tab.lower().replace(' ', '-')}",
        title=title(_sentence(axis.name)),
        caption=seeds_caption(variants),
        x_label=axis.label,
        y_label=label,
        curves=tuple(curve for curve in curves if curve.x),
        group=prefix,
        tab=axis.tab,
        bounds=(0.0, 100.0) if percent else (),
    )


def _sentence(axis: str) -> str:
    return axis if axis.isupper() or axis.startswith("FLOPs") else axis[0].lower() + axis[1:]


def in_lines(variant: Variant) -> list[tuple[str, Runs]]:
    """Return which runs share a line, each with what sets it apart: all of them, or each of two by itself."""
    if len(variant.runs) == FEWEST - 1:
        return [(f"seed {run.seed}", (run,)) for run in variant.runs]
    return [("", variant.runs)]


def seeds_caption(variants: Sequence[Variant]) -> str:
    """Return in words how seeds are shown; nothing where there is one of each."""
    counts = {len(variant.runs) for variant in variants}
    words = [BAND] if max(counts, default=1) >= FEWEST else []
    return " ".join([*words, EACH] if FEWEST - 1 in counts else words)


def _accuracy_curve(
    variant: Variant, part: str, runs: Runs, cost: Cost, accuracy: Accuracy, factor: float
) -> Curve:
    """Return the mean curve: a round's accuracy over seeds, at the mean of what that round had cost."""
    at_round: dict[int, list[Record]] = {}
    for run in runs:
        for record in run.rounds:
            if accuracy(record) is not None:
                at_round.setdefault(record["round"], []).append(record)
    # an unfinished seed must not make the mean jump where it stops
    most = max(map(len, at_round.values()), default=0)
    rounds = [number for number in sorted(at_round) if len(at_round[number]) == most]
    means = [_mean([accuracy(record) or 0.0 for record in at_round[number]]) for number in rounds]
    rounds = [rounds[place] for place in thinned(means, MOST_POINTS)]
    estimates = [
        estimate([factor * (accuracy(record) or 0.0) for record in at_round[number]]) for number in rounds
    ]
    x = [_mean([cost(record) for record in at_round[number]]) for number in rounds]
    most_shown = 100.0 if factor == 100.0 else math.inf
    return curve_of(variant.key, variant.label, x, estimates, most_shown, part=part)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def curve_of(
    key: str,
    label: str,
    x: Sequence[float],
    estimates: Sequence[Estimate],
    most: float,
    step: bool = False,
    part: str = "",
) -> Curve:
    """Return the estimates as a curve, its band cut where no value can be: below zero and above `most`."""
    y, half = [e.mean for e in estimates], [e.half or 0.0 for e in estimates]
    if any(e.half is None for e in estimates):
        return Curve(key, label, x, y, step=step, part=part)
    low = [max(0.0, mean - width) for mean, width in zip(y, half, strict=True)]
    high = [min(most, mean + width) for mean, width in zip(y, half, strict=True)]
    return Curve(key, label, x, y, low, high, half, step, part)


def size_figure(study: Study, variants: Sequence[Variant], name: str = "size", title: str = "") -> Lines:
    """Return live weights against rounds; initial pruning, in local steps, lies at negative x on an axis of its own."""
    total = sum(study.header.get("layers", {}).values()) or study.header.get("prunable", 1)
    unit, scale = unit_for(total, COUNT)
    curves = [
        _size_curve(variant, part, runs, total, scale)
        for variant in variants
        for part, runs in in_lines(variant)
    ]
    before = any(at < 0 for curve in curves for at in curve.x if at is not None)
    return Lines(
        name=name,
        title=title or "Live weights against round",
        caption=f"Live prunable weights, of {total:,}. "
        + (
            "Initial pruning, on one client before the first round, has an axis of its own. "
            if before
            else ""
        )
        + seeds_caption(variants),
        x_label="Round",
        y_label=f"Live weights ({unit})" if unit else "Live weights",
        curves=tuple(curve for curve in curves if curve.x),
        group=name,
        before="Initial pruning (steps)" if before else "",
        bounds=(0.0, total / scale),
    )


def _size_curve(variant: Variant, part: str, runs: Runs, total: int, scale: float) -> Curve:
    rounds = min((run.rounds for run in runs), key=len)
    sums = [sum(record["live"].values()) for record in rounds]
    places = thinned(sums, MOST_POINTS)
    before = _initial_sizes(runs, total) + _first_sizes(runs)
    x = [at for at, _ in before] + [float(rounds[place]["round"]) for place in places]
    sizes = [sizes for _, sizes in before]
    sizes += [[float(sum(run.rounds[place]["live"].values())) for run in runs] for place in places]
    estimates = [estimate([size / scale for size in values]) for values in sizes]
    return curve_of(variant.key, variant.label, x, estimates, total / scale, step=True, part=part)


def _first_sizes(runs: Runs) -> list[tuple[float, list[float]]]:
    """Return (0, live weights of each seed) that round 1 trains; empty for records that do not tell."""
    live = [(run.initial or run.header).get("live") for run in runs]
    return [(0.0, [float(sum(layers.values())) for layers in live if layers])] if all(live) else []


def _initial_sizes(runs: Runs, total: int) -> list[tuple[float, list[float]]]:
    """Return (steps before its end, as a negative number, live weights of each seed) of initial pruning."""
    if not any(run.initial for run in runs):
        return []
    longest = max(_length(run) for run in runs)
    grid = [-longest + longest * place / 60 for place in range(60)]
    return [(at, [_size_at(run, at, total) for run in runs]) for at in grid]


def _segments(run: RecordedRun) -> Sequence[Record]:
    return run.initial.get("segments", []) if run.initial else []


def _length(run: RecordedRun) -> float:
    return float(sum(segment["steps"] for segment in _segments(run)))


def _size_at(run: RecordedRun, at: float, total: int) -> float:
    """Return the live weights at a negative step: the full model before the first segment."""
    size, end = float(total), -_length(run)
    for segment in _segments(run):
        if at < end:
            break
        size = float(sum(segment["live"].values()))
        end += segment["steps"]
    return size


def limit_lines(settings: Mapping[str, float], rounds: int, total: int, scale: float) -> tuple[Line, ...]:
    """Return d_max(r) as a line from round 0 to the last, if a limit or target is set."""
    limit = settings.get("pruning.density_limit", 0.0)
    target = settings.get("pruning.density_target", 0.0)
    if not limit and not target:
        return ()
    ends = [(limit or 1.0) * total / scale, (target or limit) * total / scale]
    return (Line("largest size allowed", [0.0, float(rounds)], ends),)
