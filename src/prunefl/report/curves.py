"""Accuracy against everything it costs, and the model's size against rounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prunefl.core.objectives import Metric
from prunefl.report.figures import BYTES, COUNT, FLOPS, SECONDS, Curve, Line, Lines, thinned, unit_for
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import Estimate, estimate
from prunefl.report.study import Study, Variant
from prunefl.runs.records import accuracy_of, clients_accuracy_of, metric_of, score_of

MOST_POINTS = 400
Record = Mapping[str, Any]
Cost = Callable[[Record], float]
Accuracy = Callable[[Record], float | None]


def all_bytes(record: Record) -> float:
    """Return the bytes that all clients exchanged since the start."""
    return float(record["total"]["bytes_up"] + record["total"]["bytes_down"])


# tab, axis, units, cost; wall time is this machine's, the others are the simulated fleet's
AXES: tuple[tuple[str, str, Sequence[tuple[str, float]], Cost], ...] = (
    ("Time", "Simulated time", SECONDS, lambda record: float(record["total"]["seconds"])),
    ("Round", "Round", (("", 1.0),), lambda record: float(record["round"])),
    ("Bytes", "Bytes exchanged, all clients", BYTES, all_bytes),
    ("FLOPs", "FLOPs per client", FLOPS, lambda record: float(record["total"]["flops"])),
    (
        "Wall time",
        "Wall time of the simulation",
        SECONDS,
        lambda r: float(r["total"].get("wall_seconds", 0.0)),
    ),
)


def accuracy_figures(variants: Sequence[Variant], prefix: str = "accuracy", title: str = "") -> list[Lines]:
    """Return accuracy against each kind of cost, one figure per axis: on the test set, or else at the clients.

    Where the task has a metric of its own, that one.
    """
    metric = judged_by(variants)
    if metric.name != "accuracy":
        words = title or f"{metric.words[0].upper()}{metric.words[1:]}"
        label = f"Test {metric.words}" + (" (%)" if metric.percent else "")
        return _figures(variants, prefix, lambda axis: f"{words} against {axis}", label, score_of)
    tested = any("accuracy" in record for v in variants for run in v.runs for record in run.rounds)
    label = "Test accuracy (%)" if tested else "Accuracy at the clients (%)"
    return _figures(variants, prefix, lambda axis: title or f"Accuracy against {axis}", label, accuracy_of)


def clients_figures(variants: Sequence[Variant]) -> list[Lines]:
    """Return accuracy at the clients, by samples, against each kind of cost; its curves are empty where none is."""
    words = "Accuracy at the clients"
    return _figures(
        variants, "clients", lambda axis: f"{words} against {axis}", f"{words} (%)", clients_accuracy_of
    )


def _figures(
    variants: Sequence[Variant], prefix: str, title: Callable[[str], str], label: str, accuracy: Accuracy
) -> list[Lines]:
    figures, percent = [], "%" in label
    for tab, axis, units, cost in AXES:
        largest = max((cost(run.rounds[-1]) for variant in variants for run in variant.runs), default=0.0)
        unit, scale = unit_for(largest, units)
        curves = tuple(_accuracy_curve(variant, cost, scale, accuracy, percent) for variant in variants)
        figures.append(
            Lines(
                name=f"{prefix}-{tab.lower().replace(' ', '-')}",
                title=title(_sentence(axis)),
                caption="Mean over seeds; the band is the 95 % confidence interval.",
                x_label=f"{axis} ({unit})" if unit else axis,
                y_label=label,
                curves=tuple(curve for curve in curves if curve.x),
                group=prefix,
                tab=tab,
            )
        )
    return figures


def _sentence(axis: str) -> str:
    return axis if axis.isupper() or axis.startswith("FLOPs") else axis[0].lower() + axis[1:]


def judged_by(variants: Sequence[Variant]) -> Metric:
    """Return the metric of the task, which is one for all that is compared."""
    return metric_of([run.header for variant in variants for run in variant.runs])


def _accuracy_curve(variant: Variant, cost: Cost, scale: float, accuracy: Accuracy, percent: bool) -> Curve:
    """Return the mean curve: a round's accuracy over seeds, at the mean of what that round had cost."""
    at_round: dict[int, list[Record]] = {}
    for run in variant.runs:
        for record in run.rounds:
            if accuracy(record) is not None:
                at_round.setdefault(record["round"], []).append(record)
    # an unfinished seed must not make the mean jump where it stops
    most = max(map(len, at_round.values()), default=0)
    rounds = [number for number in sorted(at_round) if len(at_round[number]) == most]
    rounds = [rounds[place] for place in thinned(len(rounds), MOST_POINTS)]
    factor, most_shown = (100.0, 100.0) if percent else (1.0, math.inf)
    estimates = [
        estimate([factor * (accuracy(record) or 0.0) for record in at_round[number]]) for number in rounds
    ]
    x = [estimate([cost(record) for record in at_round[number]]).mean / scale for number in rounds]
    return curve_of(variant.key, variant.label, x, estimates, most_shown)


def curve_of(
    key: str, label: str, x: Sequence[float], estimates: Sequence[Estimate], most: float, step: bool = False
) -> Curve:
    """Return the estimates as a curve, its band cut where no value can be: below zero and above `most`."""
    y, half = [e.mean for e in estimates], [e.half or 0.0 for e in estimates]
    if any(e.half is None for e in estimates):
        return Curve(key, label, x, y, step=step)
    low = [max(0.0, mean - width) for mean, width in zip(y, half, strict=True)]
    high = [min(most, mean + width) for mean, width in zip(y, half, strict=True)]
    return Curve(key, label, x, y, low, high, half, step)


def size_figure(study: Study, variants: Sequence[Variant], name: str = "size", title: str = "") -> Lines:
    """Return live weights against rounds; initial pruning lies at negative rounds (I steps a round)."""
    total = sum(study.header.get("layers", {}).values()) or study.header.get("prunable", 1)
    unit, scale = unit_for(total, COUNT)
    curves = [_size_curve(variant, total, scale, _local_steps(study)) for variant in variants]
    return Lines(
        name=name,
        title=title or "Number of parameters against round",
        caption=f"Live prunable weights, of {total:,}. The part at negative rounds is initial pruning, "
        f"where {_local_steps(study)} local steps count as one round.",
        x_label="Round",
        y_label=f"Live weights ({unit})" if unit else "Live weights",
        curves=tuple(curve for curve in curves if curve.x),
        group=name,
    )


def _local_steps(study: Study) -> int:
    return int(study.config.get("training", {}).get("local_steps", 5))


def _size_curve(variant: Variant, total: int, scale: float, local_steps: int) -> Curve:
    rounds = min((run.rounds for run in variant.runs), key=len)
    places = thinned(len(rounds), MOST_POINTS)
    before = _initial_sizes(variant.runs, total, local_steps) + _first_sizes(variant.runs)
    x = [at for at, _ in before] + [float(rounds[place]["round"]) for place in places]
    sizes = [sizes for _, sizes in before]
    sizes += [[float(sum(run.rounds[place]["live"].values())) for run in variant.runs] for place in places]
    estimates = [estimate([size / scale for size in values]) for values in sizes]
    return curve_of(variant.key, variant.label, x, estimates, total / scale, step=True)


def _first_sizes(runs: Sequence[RecordedRun]) -> list[tuple[float, list[float]]]:
    """Return (0, live weights of each seed) that round 1 trains; empty for records that do not tell."""
    live = [(run.initial or run.header).get("live") for run in runs]
    return [(0.0, [float(sum(layers.values())) for layers in live if layers])] if all(live) else []


def _initial_sizes(
    runs: Sequence[RecordedRun], total: int, local_steps: int
) -> list[tuple[float, list[float]]]:
    """Return (negative round, live weights of each seed) during initial pruning; empty without it."""
    if not any(run.initial for run in runs):
        return []
    lengths = [_length(run, local_steps) for run in runs]
    longest = max(lengths)
    grid = [-longest + longest * place / 60 for place in range(60)]
    return [(at, [_size_at(run, at, total, local_steps) for run in runs]) for at in grid]


def _segments(run: RecordedRun) -> Sequence[Record]:
    return run.initial.get("segments", []) if run.initial else []


def _length(run: RecordedRun, local_steps: int) -> float:
    return float(sum(segment["steps"] for segment in _segments(run))) / local_steps


def _size_at(run: RecordedRun, at: float, total: int, local_steps: int) -> float:
    """Return the live weights at a negative round: the full model before the first segment."""
    size, end = float(total), -_length(run, local_steps)
    for segment in _segments(run):
        if at < end:
            break
        size = float(sum(segment["live"].values()))
        end += segment["steps"] / local_steps
    return size


def limit_lines(settings: Mapping[str, float], rounds: int, total: int, scale: float) -> tuple[Line, ...]:
    """Return d_max(r) as a line from round 0 to the last, if a limit or target is set."""
    limit = settings.get("pruning.density_limit", 0.0)
    target = settings.get("pruning.density_target", 0.0)
    if not limit and not target:
        return ()
    ends = [(limit or 1.0) * total / scale, (target or limit) * total / scale]
    return (Line("largest size allowed", [0.0, float(rounds)], ends),)
