"""The first screen: what was compared, who won by how much on accuracy, time, bytes and size, and how sure that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prunefl.config.networks import NETWORKS
from prunefl.core.objectives import Metric
from prunefl.report.axes import Axis, axes_of
from prunefl.report.curves import judged_by
from prunefl.report.runs import RecordedRun
from prunefl.report.statistics import Estimate, digits_for, estimate, estimate_ratio, spoken
from prunefl.report.study import Study, Variant
from prunefl.report.tables import spoken_goal
from prunefl.runs.records import cost_to_reach, evaluations

DATA_NAMES = {"femnist": "FEMNIST", "mnist": "MNIST", "cifar10": "CIFAR-10", "celeba": "CelebA"}
DATA_NAMES |= {"imagenet100": "ImageNet-100", "digits": "handwritten digits"}
MOST_ROWS = 7
Measure = Callable[[RecordedRun], float | None]


@dataclass(frozen=True)
class Row:
    """A variant's place in a ranking; at, low and high are shares of the ranking's width."""

    key: str
    label: str
    value: str
    at: float
    low: float
    high: float
    best: bool


@dataclass(frozen=True)
class Ranking:
    """Variants in the order of one number, the best first.

    Attributes:
        from_zero: whether lengths can be compared; else only places can.
        left_out: how many further variants have a value.
    """

    title: str
    note: str
    rows: tuple[Row, ...]
    from_zero: bool
    left_out: int = 0


def title_of(header: Mapping[str, Any]) -> str:
    """Return 'Conv-2 on FEMNIST', by the first record of a run."""
    model, data = str(header.get("model", "model")), str(header.get("data", "data"))
    label = NETWORKS[model].label if model in NETWORKS else model
    return f"{label} on {DATA_NAMES.get(data, data)}"


def facts_of(study: Study) -> list[str]:
    """Return the experiment in short phrases."""
    seeds = sorted({run.seed for variant in study.variants for run in variant.runs})
    rounds = max(int(run.rounds[-1]["round"]) for variant in study.variants for run in variant.runs)
    facts = [
        plural(len(study.variants), "variant" if _settings(study) else "method"),
        plural(len(seeds), "seed"),
        plural(rounds, "round"),
        f"{plural(int(study.header.get('clients', 0)), 'client')}{_fleet(study)}",
        f"{int(study.header.get('prunable', 0)):,} prunable weights",
    ]
    if not any(any(evaluations(run.rounds)) for variant in study.variants for run in variant.runs):
        facts.append("no accuracy: nothing was evaluated, as there was no test set")
    return facts


def _fleet(study: Study) -> str:
    """Return the simulated devices in words: ' on 9 × raspberry-pi-4 and 1 × x86'."""
    devices = list(map(str, study.header.get("devices") or []))
    kinds = dict.fromkeys(devices)
    if len(kinds) == 1:
        return f" on simulated {devices[0]}"
    words = [f"{devices.count(kind)} × {kind}" for kind in kinds]
    return f" on simulated {', '.join(words[:-1])} and {words[-1]}" if words else ""


def _settings(study: Study) -> bool:
    return any(variant.settings or variant.kind != "method" for variant in study.variants)


def plural(count: int, word: str) -> str:
    """Return '1 run' or '1,000 runs'."""
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def rankings_of(study: Study, targets: Sequence[float]) -> list[Ranking]:
    """Return the variants by final accuracy, by time and bytes to the target, and by size."""
    time, _, num_bytes, *_ = axes_of(study)
    target = _shared_target(study, targets)
    metric = judged_by(study.variants)
    final = f"Final {metric.words}" + (" (%)" if metric.percent else "")
    factor, goal = (100.0 if metric.percent else 1.0), _goal(metric, target)
    shown = [
        _ranking(study, final, "of the delivered model", _delivered(factor), not metric.higher, False),
        *(
            [
                _ranking(study, f"Time to {goal} ({time.unit})", "simulated", _cost(time, target, metric)),
                _ranking(
                    study,
                    f"Bytes to {goal} ({num_bytes.unit})",
                    "all clients, both ways",
                    _cost(num_bytes, target, metric),
                ),
            ]
            if target
            else [
                _ranking(study, f"Time ({time.unit})", "simulated, whole run", _whole(time)),
                _ranking(study, f"Bytes ({num_bytes.unit})", "whole run", _whole(num_bytes)),
            ]
        ),
        _ranking(study, "Weights left (%)", "of the prunable ones", _density),
    ]
    return [ranking for ranking in shown if ranking.rows]


def _goal(metric: Metric, target: float) -> str:
    return _share(target) if metric.percent else f"{target:g}"


def _delivered(factor: float) -> Measure:
    return lambda run: None if run.delivered is None else factor * run.delivered


def _density(run: RecordedRun) -> float | None:
    return 100 * float(run.rounds[-1]["density"])


def _whole(axis: Axis) -> Measure:
    return lambda run: axis.cost(run.rounds[-1])


def _cost(axis: Axis, target: float, metric: Metric) -> Measure:
    def measure(run: RecordedRun) -> float | None:
        reached = cost_to_reach(run.rounds, target, metric)
        return axis.cost(reached) if reached else None

    return measure


def _shared_target(study: Study, targets: Sequence[float]) -> float:
    """Return the hardest target that two variants reach with every seed (one, if there is but one), or 0."""
    need, metric = min(2, len(study.plain)), judged_by(study.variants)
    for target in sorted(targets, reverse=metric.higher):
        reached = [v for v in study.plain if all(cost_to_reach(run.rounds, target, metric) for run in v.runs)]
        if len(reached) >= need:
            return target
    return 0.0


def _ranking(
    study: Study, title: str, note: str, measure: Measure, less_is_better: bool = True, from_zero: bool = True
) -> Ranking:
    found: list[tuple[Variant, Estimate]] = []
    for variant in study.plain:
        values = [value for run in variant.runs if (value := measure(run)) is not None]
        # where a seed did not arrive, the mean is one of lucky seeds
        if len(values) == len(variant.runs):
            found.append((variant, estimate(values)))
    found.sort(key=lambda pair: pair[1].mean if less_is_better else -pair[1].mean)
    shown = found[:MOST_ROWS]
    ends = [_ends(value) for _, value in shown]
    start = 0.0 if from_zero else min((low for low, _ in ends), default=0.0)
    width = max((high for _, high in ends), default=1.0) - start or 1.0
    # dots at the very edge would be cut in half
    start, width = (start, width) if from_zero else (start - 0.06 * width, 1.12 * width)
    digits = max(1, digits_for(max((v.mean for _, v in shown), default=0.0), 3 if from_zero else 4))
    finished = [value.mean for variant, value in shown if variant.finished]
    rows = tuple(
        Row(
            variant.key,
            variant.label,
            spoken(value, digits),
            (value.mean - start) / width,
            (low - start) / width,
            (high - start) / width,
            variant.finished and value.mean == finished[0],
        )
        for (variant, value), (low, high) in zip(shown, ends, strict=True)
    )
    return Ranking(title, note, rows, from_zero, len(found) - len(shown))


def _ends(value: Estimate) -> tuple[float, float]:
    if value.half is not None and value.is_sure:
        return value.mean - value.half, value.mean + value.half
    return value.low, value.high


def verdict_of(study: Study, targets: Sequence[float]) -> str:
    """Return who reached the target first and by how much, in a sentence; nothing where there is no contest.

    A sweep has none: its first value is no better than its others to speak for the method.
    """
    target, metric = _shared_target(study, targets), judged_by(study.variants)
    able = [v for v in study.usual if v.finished and target]
    able = [v for v in able if all(cost_to_reach(run.rounds, target, metric) for run in v.runs)]
    if len(able) < 2:
        return ""
    time, _, num_bytes, *_ = axes_of(study)
    able.sort(key=lambda v: estimate([_cost(time, target, metric)(run) or 0.0 for run in v.runs]).mean)
    winner = able[0]
    rival = next((v for v in able[1:] if v.method == "conventional"), able[1])
    sooner, fewer = (_ratio(rival, winner, _cost(axis, target, metric)) for axis in (time, num_bytes))
    if sooner is None or fewer is None:
        return ""
    words = [
        f"{winner.label} reaches {spoken_goal(metric, target)} first, {_times(sooner)} sooner than {rival.label} "
        "in simulated time",
        f"with {_times(fewer)} fewer bytes"
        if fewer.mean >= 1
        else f"with {_times(_inverse(fewer))} more bytes",
    ]
    density = estimate([float(run.rounds[-1]["density"]) for run in winner.runs])
    # sooner at the target is not better in the end: both stand in one sentence
    at_last, rivals = (spoken_goal(metric, _final(variant)) for variant in (winner, rival))
    return (
        f"{words[0]}, {words[1]}, and ends at {at_last} with {_share(density.mean)} of the weights "
        f"({rival.label}: {rivals})."
    )


def _final(variant: Variant) -> float:
    """Return the metric of the delivered models, mean over seeds, to four digits."""
    return float(f"{estimate([run.delivered or 0.0 for run in variant.runs]).mean:.4g}")


def _ratio(over: Variant, under: Variant, measure: Measure) -> Estimate | None:
    """Return over / under, seed by seed; None without a common seed."""
    under_by_seed = {run.seed: measure(run) for run in under.runs}
    pairs = [(a, b) for run in over.runs if (a := measure(run)) and (b := under_by_seed.get(run.seed))]
    return estimate_ratio(pairs) if pairs else None


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _inverse(ratio: Estimate) -> Estimate:
    return Estimate(1 / ratio.mean, None, ratio.count, 1 / ratio.high, 1 / ratio.low)


def _times(ratio: Estimate) -> str:
    """Return '2.4 times (2.1 to 2.8)'."""
    return f"{ratio.mean:.1f} times" + (f" ({ratio.low:.1f} to {ratio.high:.1f})" if ratio.count > 1 else "")
