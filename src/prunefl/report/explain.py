"""Why a model has the size it has: Γ, what a second costs in each layer, what was cut when, and what that cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prunefl.report.figures import file_name
from prunefl.report.headline import plural
from prunefl.report.layers import describe_layer
from prunefl.report.runs import RecordedRun
from prunefl.report.study import Study, Variant
from prunefl.report.tables import Table

NOTHING = "–"


def explained(run: RecordedRun) -> bool:
    """Return whether a run's records say why its masks were chosen."""
    return any(True for _ in _reconfigurations(run))


def sentences(run: RecordedRun) -> list[str]:
    """Return in words why the model has the size it has."""
    last = run.rounds[-1]
    sizes, live = _sizes(run), last["live"]
    said = [
        f"{sum(live.values()):,} of {sum(sizes.values()):,} weights live after round {last['round']}: a density of "
        f"{100 * last['density']:.2f} %."
    ]
    said += _on_initial(run)
    found = list(_reconfigurations(run))
    if found:
        said += _on_last(*found[-1])
        cut, lost = (
            sum(one[key] for _, note in found for one in note["layers"].values()) for key in ("cut", "lost")
        )
        said.append(
            f"{plural(len(found), 'reconfiguration')} during the rounds cut {cut:,} weights, for an expected "
            f"{lost:.3g} of loss in all; training wins it back, so the sum is not missing at the end."
        )
    pruning = run.config.get("pruning", {})
    for key, words in (("density_limit", "limit"), ("density_target", "target at the last round")):
        if pruning.get(key):
            said.append(
                f"It may not be larger than its {words}, {100 * float(pruning[key]):g} % (pruning.{key})."
            )
    return said


def _on_initial(run: RecordedRun) -> list[str]:
    if run.initial is None or not run.initial.get("segments"):
        return []
    passes = sum(int(segment.get("passes", 0)) for segment in run.initial["segments"])
    reasons = {
        "stable": "because its size had become stable",
        "max_passes": "at the largest number of passes (initial.max_passes)",
    }
    why = reasons.get(str(run.initial.get("ended_by")), "")
    density = 100 * float(run.initial["density"])
    lost = find_lost(run.initial)
    return [
        f"Initial pruning left {density:.2f} % of them; it ended after {passes} passes{' ' * bool(why)}{why}.",
        *([f"{lost}."] if lost else []),
    ]


def find_lost(initial: Mapping[str, Any]) -> str:
    """Return what is to be said of a first stage that ended with less than half the accuracy it had had, or ''."""
    accuracies = [float(segment.get("accuracy", 0.0)) for segment in initial.get("segments", [])]
    best, last = max(accuracies, default=0.0), accuracies[-1] if accuracies else 0.0
    if last >= best / 2:
        return ""
    return (
        f"Initial pruning lost what it had learned: accuracy {best:.0%} on the way, {last:.0%} at its end; lower "
        "training.learning_rate"
    )


def _on_last(record: Mapping[str, Any], note: Mapping[str, Any]) -> list[str]:
    spent = sum(layer["seconds"] for layer in note["layers"].values())
    return [
        f"After round {record['round']}, the last reconfiguration, Γ was {note['gamma']:.3g} a second: that much "
        "importance (squared gradient) a second of a round brings. A weight that might be pruned lives if it "
        "brings at least as much for the seconds that it takes.",
        f"A round takes {note['seconds']:.3g} s by the time model, {max(0.0, note['seconds'] - spent):.3g} s of it "
        "whatever lives: the smaller the rest is, the less another cut would save.",
    ]


def layers_table(run: RecordedRun, name: str = "why-layers", title: str = "What a second buys") -> Table:
    """Return each layer's size, its time, what a second brings there and what the last cut there was paid for it."""
    found, sizes, live = list(_reconfigurations(run)), _sizes(run), run.rounds[-1]["live"]
    rows = []
    for layer, size in sizes.items():
        told = [(record, note["layers"][layer]) for record, note in found]
        cuts = [(record, one) for record, one in told if one["cut"]]
        last = told[-1][1]
        rows.append(
            (
                _label(run, layer),
                f"{int(live.get(layer, 0)):,}",
                f"{100 * live.get(layer, 0) / max(1, size):.1f}",
                f"{last['seconds']:.3g}",
                _ratio(last["gain"], last["seconds"]),
                _ratio(cuts[-1][1]["lost"], cuts[-1][1]["saved"]) if cuts else NOTHING,
                f"{cuts[-1][1]['cut']:,} in round {cuts[-1][0]['round']}" if cuts else "never",
            )
        )
    columns = ("Layer", "Live", "Density (%)", "Seconds a round")
    return Table(
        name,
        title,
        "Importance a second: what the layer's live weights bring for the time they take, to be held against Γ. Price "
        "of a second: loss that the layer's last cut was expected to cost, for each second that it saved.",
        (*columns, "Importance a second", "Price of a second (loss)", "Last cut"),
        tuple(rows),
    )


def history_table(run: RecordedRun, name: str = "why-history", title: str = "What was cut when") -> Table:
    """Return every reconfiguration with what it cut, what that was expected to cost and what the loss did."""
    sizes = _sizes(run)
    rows = [*_initial_rows(run, sum(sizes.values())), *_round_rows(run)]
    return Table(
        name,
        title,
        "Where: the layers that lost more than a hundredth of what was cut. Expected loss: half the batch size times "
        "Σ w²z of the cut weights. Training loss: of the pass or round before, and of the one after.",
        ("When", "Cut", "Grown", "Density (%)", "Γ (1/s)", "Expected loss", "Training loss", "Where"),
        tuple(rows),
    )


def _initial_rows(run: RecordedRun, size: int) -> Iterator[tuple[str, ...]]:
    segments: Sequence[Mapping[str, Any]] = run.initial.get("segments", []) if run.initial else []
    passes = 0
    for number, segment in enumerate(segments, 1):
        following = segments[number] if number < len(segments) else None
        passes += int(segment.get("passes", 0))
        after = following["live"] if following else _live_after_initial(run)
        change = {layer: int(segment["live"][layer]) - int(after.get(layer, 0)) for layer in segment["live"]}
        cut, grown = sum(max(0, n) for n in change.values()), sum(max(0, -n) for n in change.values())
        losses = f"{segment['loss']:.3f}" + (f" → {following['loss']:.3f}" if following else "")
        told = "gamma" in segment
        yield (
            f"initial pruning, pass {passes}",
            f"{cut:,}",
            f"{grown:,}",
            f"{100 * sum(after.values()) / max(1, size):.2f}",
            f"{segment['gamma']:.3g}" if told else NOTHING,
            f"{segment['lost']:.3g}" if told else NOTHING,
            losses,
            _where(run, change),
        )


def _live_after_initial(run: RecordedRun) -> Mapping[str, int]:
    assert run.initial is not None
    live: Mapping[str, int] = run.initial.get("live") or run.initial["segments"][-1]["live"]
    return live


def _round_rows(run: RecordedRun) -> Iterator[tuple[str, ...]]:
    after = {int(record["round"]): record for record in run.rounds}
    for record, note in _reconfigurations(run):
        layers = note["layers"]
        following = after.get(int(record["round"]) + 1)
        cut, grown = (sum(int(layer[key]) for layer in layers.values()) for key in ("cut", "grown"))
        losses = " → ".join(f"{one['loss']:.3f}" for one in (record, following) if one and "loss" in one)
        yield (
            f"round {record['round']}",
            f"{cut:,}",
            f"{grown:,}",
            f"{100 * record['density']:.2f}",
            f"{note['gamma']:.3g}",
            f"{note['lost']:.3g}",
            losses,
            _where(run, {name: int(layer["cut"]) for name, layer in layers.items()}),
        )


def _where(run: RecordedRun, cut: Mapping[str, int]) -> str:
    total = sum(max(0, count) for count in cut.values())
    parts = (f"{_label(run, name)}: {count:,}" for name, count in cut.items() if count > total / 100)
    return "; ".join(parts) or NOTHING


def _label(run: RecordedRun, layer: str) -> str:
    return describe_layer(layer, run.header.get("shapes", {}).get(layer, ()))


def _reconfigurations(run: RecordedRun) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the rounds after which masks were chosen anew, and why."""
    return ((record, record["reconfiguration"]) for record in run.rounds if "reconfiguration" in record)


def _sizes(run: RecordedRun) -> Mapping[str, int]:
    return {name: int(size) for name, size in (run.header.get("layers") or run.rounds[-1]["live"]).items()}


def _ratio(value: float, seconds: float) -> str:
    return f"{value / seconds:.3g}" if seconds > 0 else "takes no time"


def why_tables(study: Study) -> list[Table]:
    """Return both tables for the first run of each method that says why."""
    return [table for variant in study.plain if explained(variant.runs[0]) for table in _tables(variant)]


def _tables(variant: Variant) -> list[Table]:
    run, name = variant.runs[0], file_name(variant.label)
    seed = f"{variant.label}, seed {run.seed}"
    return [
        layers_table(run, f"why-layers-{name}", f"What a second buys: {seed}"),
        history_table(run, f"why-history-{name}", f"What was cut when: {seed}"),
    ]
