"""Where the time went, and whether the time model foresaw it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from prunefl.report.axes import axes_of
from prunefl.report.figures import SECONDS, Bars, Curve, Line, Lines, thinned
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import r_squared
from prunefl.report.study import Study, Variant

INITIAL = "initial pruning"
PARTS = ("compute", "upload", "download", "overhead")
EVALUATION = "evaluation"


def split_seconds(run: RecordedRun) -> dict[str, float]:
    """Return the run's simulated seconds by part; initial pruning and evaluation at clients are parts too."""
    split = {INITIAL: float((run.initial or {}).get("seconds", {}).get("total", 0.0))}
    return split | {
        **{
            part: sum(float(record.get("seconds", {}).get(part, 0.0)) for record in run.rounds)
            for part in PARTS
        },
        EVALUATION: sum(
            float(record["evaluation"]["seconds"]["total"]) for record in run.rounds if "evaluation" in record
        ),
    }


def split_figures(study: Study, variants: Sequence[Variant]) -> list[Bars]:
    """Return the whole run's time by part, and a mean round's."""
    means = [_mean([split_seconds(run) for run in variant.runs]) for variant in variants]
    rounds = [sum(len(run.rounds) for run in v.runs) / len(v.runs) for v in variants]
    per_round = [
        {part: value / count for part, value in mean.items() if part != INITIAL}
        for mean, count in zip(means, rounds, strict=True)
    ]
    unit = axes_of(study)[0].unit
    whole = [{part: value / dict(SECONDS)[unit] for part, value in mean.items()} for mean in means]
    averaged = " Averages over seeds." if any(len(variant.runs) > 1 for variant in variants) else ""
    return [
        _bars(
            "cost-run", "Whole run", f"Simulated time by what it went into.{averaged}", variants, whole, unit
        ),
        _bars(
            "cost-round",
            "One round",
            f"Simulated time of an average round, as its slowest client sees it.{averaged}",
            variants,
            per_round,
            "s",
        ),
    ]


def _mean(splits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {part: sum(split[part] for split in splits) / len(splits) for part in splits[0]}


def _bars(
    name: str,
    tab: str,
    caption: str,
    variants: Sequence[Variant],
    means: Sequence[Mapping[str, float]],
    unit: str,
) -> Bars:
    shown = [part for part in means[0] if any(mean[part] > 0 for mean in means)]
    return Bars(
        name=name,
        title=f"Where the time goes: {tab.lower()}",
        caption=caption,
        x_label=f"Simulated time ({unit})",
        variants=tuple(variant.key for variant in variants),
        labels=tuple(variant.label for variant in variants),
        parts=tuple((part, tuple(mean[part] for mean in means)) for part in shown),
        group="cost",
        tab=tab,
    )


def prediction_figure(variants: Sequence[Variant]) -> Lines | None:
    """Return by how much rounds were charged more or less than predicted, in percent, against the prediction."""
    curves = []
    for variant in variants:
        pairs = [pair for run in variant.runs for pair in predicted_and_charged(run)]
        if pairs:
            curves.append(_points(variant, pairs))
    if not curves:
        return None
    pairs = [pair for variant in variants for run in variant.runs for pair in predicted_and_charged(run)]
    fit = r_squared([p for p, _ in pairs], [m for _, m in pairs])
    ends = [min(p for p, _ in pairs), max(p for p, _ in pairs)]
    return Lines(
        name="prediction",
        title="How far the time model is off",
        caption="PruneFL chooses weights by T(M), its forecast of the seconds that a round takes with the masks M. "
        "Each point is a round in which clients only trained, with masks that they had: how much longer (above the "
        "dotted line) or shorter (below) it took on the simulated clock than T(M) had said. "
        + (f"Over these rounds of all methods R² is {fit:.4f}." if fit is not None else ""),
        x_label="Predicted by T(M) (s)",
        y_label="Charged beyond T(M) (%)",
        curves=tuple(curves),
        lines=(Line("as predicted", ends, [0.0, 0.0]),),
        group="prediction",
        points=True,
        log=ends[1] > 10 * ends[0] > 0,
    )


def predicted_and_charged(run: RecordedRun) -> list[tuple[float, float]]:
    """Return (T(M), simulated seconds) of every round that has both and only trained.

    Sending masks, choosing them anew and collecting importance cost time that T(M) does not speak of.
    """
    return [
        (float(record["predicted_seconds"]), float(record["seconds"]["total"]))
        for before, record in pairwise(run.rounds)
        if record.get("predicted_seconds") is not None
        and "total" in record.get("seconds", {})
        and not record.get("reconfigured")
        and not record.get("collected")
        and not before.get("reconfigured")
        and record["seconds"]["total"] > 0
    ]


def percent_off(pairs: Sequence[tuple[float, float]]) -> float:
    """Return by how much predictions miss what was charged, in percent of it, on average.

    R² of a single method would speak of the little that its rounds differ by.
    """
    return 100 * fmean(abs(predicted - charged) / charged for predicted, charged in pairs)


def _points(variant: Variant, pairs: Sequence[tuple[float, float]]) -> Curve:
    label = f"{variant.label} (off by {percent_off(pairs):.1f} %)"
    ordered = sorted(
        (predicted, 100 * (charged / predicted - 1)) for predicted, charged in pairs if predicted
    )
    shown = [ordered[place] for place in thinned([off for _, off in ordered], 300)]
    return Curve(variant.key, label, [p for p, _ in shown], [off for _, off in shown])
