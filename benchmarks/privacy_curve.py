"""Accuracy against noise: a CSV with all evaluations of private runs, and a table (docs/privacy.md).

python benchmarks/privacy_curve.py OUT.csv ROUND,ROUND,... FOLDER...

The table has a line for each folder, such as runs/conv-0.1: accuracy and epsilon after each of the rounds.
"""

import csv
import json
import sys
import tomllib
from pathlib import Path
from typing import Any


def read(folder: Path) -> list[dict[str, Any]]:
    """Return a line for each evaluation of a run, as far as it is."""
    config = tomllib.loads((folder / "config.toml").read_text())
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return [
        {
            "run": folder.name,
            "method": config["run"]["method"],
            "noise": config["privacy"]["noise"],
            "round": record["round"],
            "epsilon": f"{record['privacy']['epsilon']:.4g}",
            "accuracy": round(record["accuracy"], 5),
            "test_loss": round(record["test_loss"], 4),
            "density": round(record["density"], 4),
        }
        for record in records
        if record["kind"] == "round" and "accuracy" in record
    ]


def main() -> None:
    """Write the CSV and print the table."""
    out, wanted, *folders = sys.argv[1:]
    runs = [read(Path(folder)) for folder in folders]
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, list(runs[0][0]))
        writer.writeheader()
        writer.writerows(line for run in runs for line in run)
    for run in sorted(runs, key=lambda run: (run[0]["run"].rpartition("-")[0], run[0]["noise"])):
        at = {line["round"]: line for line in run}
        cells = [
            f"{at[n]['accuracy']:.1%} at {at[n]['density']:.0%} (ε {at[n]['epsilon']})" if n in at else ""
            for n in map(int, wanted.split(","))
        ]
        print(f"| {run[0]['run']} | {run[0]['noise']:g} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
