"""The pictures that every run leaves: accuracy against time, and the density of each layer over the rounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunefl.methods import label_method
from prunefl.report.curves import capital
from prunefl.report.draw import plain_style
from prunefl.report.figures import SECONDS, unit_for
from prunefl.report.headline import title_of
from prunefl.report.layers import describe_layer
from prunefl.report.palette import method_colours
from prunefl.runs.records import evaluations, metric_of, score_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prunefl.runs.runner import Run

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
    """Write accuracy, or the task's own metric, against simulated time and against wall time, one curve a run."""
    with plain_style():
        return _saved(_comparison(runs), folder / name)


def plot(*runs: "Run") -> "Figure":
    """Return a figure of what runs came to, accuracy or the task's own metric against time; a notebook shows it."""
    with plain_style():
        return _comparison([(run.records[0].get("method", "run"), run.records) for run in runs])


def _comparison(runs: Sequence[tuple[str, Sequence[Record]]]) -> "Figure":
    metric = metric_of(runs[0][1])
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.7), layout="constrained")
    figure.suptitle(
        f"{capital(metric.words)} of {title_of(runs[0][1][0])}",
        x=0.01,
        ha="left",
        fontsize=11,
        fontweight="bold",
    )
    sides = figure.subplots(1, 2, sharey=True)
    for axes, key, words in zip(sides, ("seconds", "wall_seconds"), ("Simulated", "Wall"), strict=True):
        last = [r["total"][key] for _, records in runs for r in records if r["kind"] == "round"]
        unit, scale = unit_for(max(last), SECONDS)
        for method, records in runs:
            tested = list(evaluations(records))
            scores = [(100 if metric.percent else 1) * (score_of(record) or 0.0) for record in tested]
            x = [record["total"][key] / scale for record in tested]
            axes.plot(x, scores, label=label_method(method), color=method_colours(method)[0], linewidth=1.8)
        axes.set_xlabel(f"{words} time ({unit})")
        axes.set_xlim(left=0)
    sides[0].set_ylabel(f"Test {metric.words}" + (" (%)" if metric.percent else ""))
    if len(runs) > 1:
        sides[0].legend(loc="lower right")
    return figure


def _draw_density(records: Sequence[Record], folder: Path) -> Path:
    """Write the density of each layer against rounds; a change is a step."""
    header = records[0]
    changes = [record for record in records if "live" in record]
    last = max(record["round"] for record in records if record["kind"] == "round")
    with plain_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.7), layout="constrained")
        axes = figure.subplots()
        for name, size in header["layers"].items():
            points = [(record.get("round", 0), 100 * record["live"][name] / size) for record in changes]
            points.append((last, points[-1][1]))
            label = describe_layer(name, header.get("shapes", {}).get(name, ()))
            axes.step(*zip(*points, strict=True), where="post", label=label, linewidth=1.8)
        axes.set(xlabel="Round", ylabel="Live weights of the layer (%)", ylim=(0, 102), xlim=(0, last))
        method = label_method(str(header.get("method", "run")))
        axes.set_title(f"Density by layer: {method}, {title_of(header)}", loc="left", fontweight="bold")
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
        return _saved(figure, folder / "density.png")


def _saved(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
