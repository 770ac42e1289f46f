"""The pictures that every run leaves: accuracy against time, and the density of each layer over the rounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prunefl.runs.records import evaluations, metric_of, score_of

Record = dict[str, Any]


def draw_run(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write accuracy.png (or that of the task's own metric) and density.png, if there is anything to show."""
    rounds = [record for record in records if record["kind"] == "round"]
    if not rounds:
        return []
    method = records[0].get("method", "run")
    tested = any("accuracy" in record or "score" in record for record in rounds)
    name = f"{metric_of(records).name}.png"
    judged = [draw_comparison([(method, list(records))], folder, name)] if tested else []
    return [*judged, _draw_density(records, folder)]


def draw_comparison(
    runs: Sequence[tuple[str, Sequence[Record]]], folder: Path, name: str = "comparison.png"
) -> Path:
    """Write accuracy against simulated time and against wall time, one curve a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for label, records in runs:
        tested = list(evaluations(records))
        metric = metric_of(records)
        scores = [(100 if metric.percent else 1) * (score_of(record) or 0.0) for record in tested]
        left.plot([r["total"]["seconds"] / 3600 for r in tested], scores, label=label, linewidth=1.8)
        right.plot([r["total"]["wall_seconds"] for r in tested], scores, label=label, linewidth=1.8)
        left.set(ylabel=metric.words + (" (%)" if metric.percent else ""))
    left.set(xlabel="simulated time (hours)")
    right.set(xlabel="wall time (seconds)")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, loc="lower right")
    return _saved(figure, folder / name)


def _draw_density(records: Sequence[Record], folder: Path) -> Path:
    """Write the density of each layer against rounds; a change is a step."""
    from matplotlib.figure import Figure

    sizes = records[0]["layers"]
    changes = [record for record in records if "live" in record]
    last = max(record["round"] for record in records if record["kind"] == "round")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, size in sizes.items():
        points = [(record.get("round", 0), 100 * record["live"][name] / size) for record in changes]
        points.append((last, points[-1][1]))
        axes.step(*zip(*points, strict=True), where="post", label=name.removesuffix(".weight"), linewidth=1.6)
    axes.set(xlabel="round", ylabel="density (%)", ylim=(0, 102))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", title="layer", loc="center left", bbox_to_anchor=(1, 0.5))
    return _saved(figure, folder / "density.png")


def _saved(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
