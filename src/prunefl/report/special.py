"""Figures that appear when their runs are there: tickets, SNIP at several densities, limits, sweeps."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from prunefl.config.settings import flat
from prunefl.methods import finds_density
from prunefl.report.axes import axes_of
from prunefl.report.curves import (
    EACH,
    accuracy_figures,
    capital,
    curve_of,
    judged_by,
    limit_lines,
    seeds_caption,
    size_figure,
)
from prunefl.report.figures import COUNT, Curve, Lines, file_name, unit_for
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import estimate
from prunefl.report.study import Study, Variant, label_of

LIMITS = ("pruning.density_limit", "pruning.density_target")
Measure = Callable[[RecordedRun], float | None]


def lottery_figures(study: Study) -> list[Lines]:
    """Return the tickets beside conventional, SNIP and SynFlow, by round; empty without tickets."""
    tickets = [variant for variant in study.variants if variant.kind == "lottery"]
    rivals = [v for v in study.plain if v.method in ("conventional", "snip", "synflow")]
    if not tickets:
        return []
    shown = [*tickets, *(v for v in rivals if v not in tickets)]
    by_round = accuracy_figures(study, shown, "lottery")[1]
    caption = "The final mask trained again from its first weights, and from another seed's."
    return [replace(by_round, title="Is the final mask a lottery ticket?", caption=caption, tab="")]


def snip_figures(study: Study) -> list[Lines]:
    """Return SNIP at each density that was run, beside PruneFL; empty unless there are several."""
    snips = [variant for variant in study.variants if variant.method == "snip" and variant.kind == "method"]
    if len(snips) < 2:
        return []
    finders = [variant for variant in study.plain if finds_density(variant.method)]
    figures = accuracy_figures(study, [*finders, *snips], "snip-densities", "SNIP at several densities")
    return figures[:2]


def limit_figures(study: Study) -> list[Lines]:
    """Return size and accuracy of runs with a size limit or target, beside the run without."""
    limited = [v for v in study.variants if finds_density(v.method) and _limits(v)]
    if not limited:
        return []
    shown = [*(v for v in study.plain if finds_density(v.method) and v not in limited), *limited]
    size = size_figure(study, shown, "limited-size", "Training with limited and targeted size")
    total = sum(study.header.get("layers", {}).values()) or study.header.get("prunable", 1)
    scale = unit_for(total, COUNT)[1]
    lines = [
        replace(line, label=f"limit of {variant.label}")
        for variant in limited
        for line in limit_lines(_limits(variant), variant.runs[0].planned, total, scale)
    ]
    accuracy = accuracy_figures(study, shown, "limited-accuracy", "Accuracy with limited and targeted size")[
        0
    ]
    return [
        replace(size, lines=tuple(lines), group="limited", tab="Size"),
        replace(accuracy, group="limited", tab="Accuracy"),
    ]


def _limits(variant: Variant) -> dict[str, float]:
    """Return the limit and target that its runs were given, whether to set it apart or to every run."""
    given = {**flat(variant.runs[0].config), **variant.settings}
    return {key: float(given[key]) for key in LIMITS if given.get(key)}


def sweep_figures(study: Study) -> list[Lines]:
    """Return final accuracy, density and time against each swept number."""
    swept = [variant for variant in study.variants if variant.kind == "sweep"]
    figures: list[Lines] = []
    for key in sorted({key for variant in swept for key in variant.settings}):
        over = [v for v in swept if isinstance(v.settings.get(key), int | float)]
        if len(over) > 1:
            figures += _sweep(study, key, over)
    return figures


def _sweep(study: Study, key: str, variants: Sequence[Variant]) -> list[Lines]:
    time = axes_of(study)[0]
    metric = judged_by(variants)
    judged = f"Final {metric.words}" + (" (%)" if metric.percent else "")
    measures: tuple[tuple[str, str, Measure], ...] = (
        (capital(metric.words), judged, _final(100.0 if metric.percent else 1.0)),
        ("Density", "Final density (%)", lambda run: 100 * float(run.rounds[-1]["density"])),
        ("Time", time.label, lambda run: time.cost(run.rounds[-1])),
    )
    values = [float(variant.settings[key]) for variant in variants]
    return [
        Lines(
            name=f"sweep-{file_name(key)}-{file_name(tab)}",
            title=f"{y_label.partition(' (')[0]} against {key}",
            caption=seeds_caption(variants).replace(EACH, "Means of two seeds."),
            x_label=key,
            y_label=y_label,
            curves=tuple(
                curve
                for family in _families(key, variants)
                if (curve := _sweep_curve(key, family, measure, _most(y_label))).x
            ),
            group=f"sweep-{key}",
            tab=tab,
            bounds=(0.0, 100.0) if "%" in y_label else (),
            log=min(values) > 0 and max(values) >= 10 * min(values),
            marks=True,
        )
        for tab, y_label, measure in measures
    ]


def _final(factor: float) -> Measure:
    return lambda run: None if run.delivered is None else factor * run.delivered


def _most(y_label: str) -> float:
    """Return the largest value that the axis can show: a band must not claim 120 % accuracy."""
    return 100.0 if "%" in y_label else math.inf


def _families(key: str, variants: Sequence[Variant]) -> list[list[Variant]]:
    """Return the variants that differ in `key` only, each family in the order of its values."""
    families: dict[str, list[Variant]] = {}
    for variant in variants:
        families.setdefault(_apart_from(key, variant), []).append(variant)
    return [sorted(family, key=lambda v: float(v.settings[key])) for family in families.values()]


def _apart_from(key: str, variant: Variant) -> str:
    return label_of(variant.method, {name: v for name, v in variant.settings.items() if name != key})


def _sweep_curve(key: str, family: Sequence[Variant], measure: Measure, most: float) -> Curve:
    measured = {
        float(variant.settings[key]): [value for run in variant.runs if (value := measure(run)) is not None]
        for variant in family
    }
    estimates = {x: estimate(values) for x, values in measured.items() if values}
    label = _apart_from(key, family[0])
    return curve_of(family[0].key, label, list(estimates), list(estimates.values()), most)
