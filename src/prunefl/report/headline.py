"""What a reader in a hurry should know: a title, facts, and a few sentences with numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from prunefl.config.networks import NETWORKS
from prunefl.methods import finds_density
from prunefl.report.figures import BYTES, FLOPS, SECONDS, unit_for
from prunefl.report.statistics import estimate
from prunefl.report.study import Study, Variant
from prunefl.runs.records import cost_to_reach, evaluations, final_accuracy

DATA_NAMES = {"femnist": "FEMNIST", "mnist": "MNIST", "cifar10": "CIFAR-10", "celeba": "CelebA"}
DATA_NAMES |= {"imagenet100": "ImageNet-100", "digits": "handwritten digits"}


@dataclass(frozen=True)
class Card:
    """One number worth knowing."""

    value: str
    unit: str
    label: str
    note: str


def title_of(study: Study) -> str:
    """Return 'Conv-2 on FEMNIST'."""
    model, data = str(study.header.get("model", "model")), str(study.header.get("data", "data"))
    label = NETWORKS[model].label if model in NETWORKS else model
    return f"{label} on {DATA_NAMES.get(data, data)}"


def facts_of(study: Study) -> list[str]:
    """Return the experiment in short phrases."""
    seeds = sorted({run.seed for variant in study.variants for run in variant.runs})
    rounds = max(int(run.rounds[-1]["round"]) for variant in study.variants for run in variant.runs)
    devices = study.header.get("devices") or []
    kinds = {device: devices.count(device) for device in dict.fromkeys(map(str, devices))}
    facts = [
        _plural(len(study.variants), "variant" if _settings(study) else "method"),
        _plural(len(seeds), "seed"),
        _plural(rounds, "round"),
        _plural(int(study.header.get("clients", 0)), "client"),
        f"{int(study.header.get('prunable', 0)):,} prunable weights",
    ]
    if not any(any(evaluations(run.rounds)) for variant in study.variants for run in variant.runs):
        facts.append("no accuracy: nothing was evaluated, as there was no test set")
    return facts + ([" + ".join(f"{count} × {name}" for name, count in kinds.items())] if kinds else [])


def _settings(study: Study) -> bool:
    return any(variant.settings or variant.kind != "method" for variant in study.variants)


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def cards_of(study: Study, targets: Sequence[float]) -> list[Card]:
    """Return PruneFL's accuracy, size, time and bytes beside conventional FL's, as far as both are there.

    A sweep has none: its first value is no better than its others to speak for the method.
    """
    ours = next((v for v in study.usual if finds_density(v.method)), None)
    theirs = next((v for v in study.usual if v.method == "conventional"), None)
    if ours is None or (accuracy := _accuracy(ours)) is None:
        return []
    other = _accuracy(theirs) if theirs else None
    beside = f"{theirs.label}: {other}" if theirs and other else "of the model delivered"
    density = estimate([100 * float(run.rounds[-1]["density"]) for run in ours.runs])
    cards = [
        Card(
            accuracy.partition(" ")[0], accuracy.partition(" ")[2], f"final accuracy of {ours.label}", beside
        ),
        Card(f"{density.mean:.1f}", "%", "of the weights are left", "found by the method itself"),
    ]
    return cards + (_savings(ours, theirs, targets) if theirs else [])


def _accuracy(variant: Variant) -> str | None:
    finals = [100 * f for run in variant.runs if (f := final_accuracy(run.rounds)) is not None]
    if not finals:
        return None
    value = estimate(finals)
    return f"{value.mean:.2f}" + (f" ± {value.half:.2f} %" if value.half is not None else " %")


def _savings(ours: Variant, theirs: Variant, targets: Sequence[float]) -> list[Card]:
    """Return how much less the highest target that both reach costs PruneFL."""
    for target in sorted(targets, reverse=True):
        mine = [r for run in ours.runs if (r := cost_to_reach(run.rounds, target))]
        full = [r for run in theirs.runs if (r := cost_to_reach(run.rounds, target))]
        if len(mine) == len(ours.runs) and len(full) == len(theirs.runs):
            return [
                _saving("simulated time", target, _mean(mine, "seconds"), _mean(full, "seconds"), SECONDS),
                _saving(
                    "bytes",
                    target,
                    _mean(mine, "bytes_up") + _mean(mine, "bytes_down"),
                    _mean(full, "bytes_up") + _mean(full, "bytes_down"),
                    BYTES,
                ),
                _saving("FLOPs per client", target, _mean(mine, "flops"), _mean(full, "flops"), FLOPS),
            ]
    return []


def _mean(records: Sequence[object], key: str) -> float:
    return estimate([float(record["total"][key]) for record in records]).mean  # type: ignore[index]


def _saving(what: str, target: float, mine: float, full: float, units: Sequence[tuple[str, float]]) -> Card:
    label = f"{'less' if mine <= full else 'more'} {what} to {100 * target:g} %"
    factor = full / mine if mine <= full else mine / full
    unit, scale = unit_for(max(mine, full), units)
    note = f"{mine / scale:,.2f} against {full / scale:,.2f} {unit}"
    return Card(f"{factor:.1f}×", "", label, note)
