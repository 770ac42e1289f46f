"""Draws loss-curves.png and writes its numbers: each task pruned and dense.

From the root: python docs/loss_curves.py RUNS
RUNS holds, for each task, the folder that the command in training.md made: RUNS/TASK/METHOD/seed-0.
"""

import csv
import sys
from pathlib import Path

from matplotlib.figure import Figure

from prunefl.runs.records import evaluations, metric_of, read_records, score_of

TASKS = {
    "digits-vit": "Vision transformer, digits",
    "shakespeare": "Characters, Shakespeare",
    "shapes-unet": "U-Net, synthetic shapes",
    "diabetes": "Regression, diabetes table",
}
LINES = {"prunefl-fisher_density_limit-0.25": ("pruned", "#d1495b"), "conventional": ("dense", "#44546b")}
HERE = Path(__file__).parent


def main(runs: Path) -> None:
    """Draw and write what the folder holds."""
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for axes, (task, title) in zip(figure.subplots(2, 2).flat, TASKS.items(), strict=True):
        for method, (label, colour) in LINES.items():
            records = read_records(runs / task / method / "seed-0" / "records.jsonl")
            metric, judged = metric_of(records), list(evaluations(records))
            name = f"{label}, {metric.words} {metric.spoken(score_of(judged[-1]) or 0.0)}"
            rounds, losses = [r["round"] for r in judged], [r["test_loss"] for r in judged]
            axes.plot(rounds, losses, label=name, color=colour, linewidth=1.8)
            rows = [(r["round"], r["test_loss"], score_of(r), r["density"], r["loss"]) for r in judged]
            write(HERE / "results" / f"{task}-{label}-seed0.csv", metric.name, rows)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set(xlabel="Round", ylabel="Test loss")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(HERE / "loss-curves.png", dpi=110)


def write(path: Path, metric: str, rows: list[tuple[float | None, ...]]) -> None:
    """Write a run's evaluations as CSV."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("round", "test_loss", metric, "density", "training_loss"))
        table.writerows([f"{value:.6g}" for value in row if value is not None] for row in rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
