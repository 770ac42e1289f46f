"""A run without a test set has no accuracy, and everything that shows one says so."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from prunefl.commands.configs import resolve
from prunefl.commands.summary import summary_table
from prunefl.report.picture import draw_run
from prunefl.report.write import write_report
from prunefl.runs.api import run_config
from tasks import ONE_ROUND

Image = pytest.importorskip("PIL.Image")


def test_records_summary_pictures_and_report_do_without_accuracy(tmp_path: Path, capsys) -> None:
    for client in ("ann", "bob"):
        for i in range(6):
            path = tmp_path / "own" / client / "ab"[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((6, 6), 9 * i, np.uint8)).save(path)
    config, _ = resolve(
        [
            "data.name=folder-per-client",
            f"data.dir={tmp_path / 'own'}",
            "run.target_accuracy=0.9",
            *ONE_ROUND,
        ],
        None,
    )
    run = run_config(config, tmp_path / "run")
    assert run.accuracy is None
    assert not any("accuracy" in record for record in run.records if record["kind"] == "round")
    Console(width=80).print(summary_table([("prunefl", run.records)], 0.9))
    assert "no test set" in capsys.readouterr().out
    assert [path.name for path in draw_run(run.records, run.folder)] == ["density.png"]
    page = write_report([run.folder], tmp_path / "report", figures=()).page.read_text()
    assert "nothing was evaluated, as there was no test set" in page
