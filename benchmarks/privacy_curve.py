"""Accuracy against epsilon: a CSV and a table of private runs' folders, such as runs/conv-0.1 (docs/results.md).

python benchmarks/privacy_curve.py OUT.csv FOLDER...
"""

import csv
import json
import sys
import tomllib
from pathlib import Path


def read(folder: Path) -> dict[str, object]:
    """Return a run's method, noise and what it came to, as far as it is."""
    config = tomllib.loads((folder / "config.toml").read_text())
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    rounds = [record for record in records if record["kind"] == "round"]
    tested = [record for record in rounds if "accuracy" in record]
    last, spent = rounds[-1], rounds[-1]["privacy"]
    return {
        "method": config["run"]["method"],
        "noise": config["privacy"]["noise"],
        "rounds": last["round"],
        "epsilon": round(spent["epsilon"], 4),
        "delta": spent["delta"],
        "accuracy": tested[-1]["accuracy"] if tested else "",
        "best_accuracy": max((record["accuracy"] for record in tested), default=""),
        "density": round(last["density"], 4),
    }


def main() -> None:
    out, *folders = map(Path, sys.argv[1:])
    rows = [read(folder) for folder in folders if (folder / "records.jsonl").exists()]
    rows.sort(key=lambda row: (str(row["method"]), float(str(row["noise"]))))
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


if __name__ == "__main__":
    main()
