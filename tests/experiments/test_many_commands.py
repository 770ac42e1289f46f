"""`compare`, `lottery` and `sweep` from the command line to the report, on a task that takes seconds."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app

SMALL = [
    *("digits", "run.rounds=4", "run.eval_every=2", "data.clients=2", "model.name=lenet300100"),
    *("training.local_steps=1", "pruning.interval=2", "initial.interval=1", "initial.max_passes=3"),
]


def call(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output + (str(result.exception) if result.exception else "")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compared")
    code, output = call(
        "compare",
        *SMALL,
        "--methods",
        "prunefl,conventional",
        "--seeds",
        "1",
        "--out",
        out,
        "--target",
        "0.1",
    )
    assert code == 0, output
    return out


def test_a_comparison_ends_with_a_report(compared: Path) -> None:
    assert (compared / "report" / "report.html").exists()
    assert "Conventional FL" in (compared / "report" / "tables" / "summary.md").read_text()


def test_tickets_join_their_comparisons_report(compared: Path) -> None:
    code, output = call("lottery", compared / "prunefl" / "seed-0", "--target", "0.1")
    assert code == 0, output
    assert "Lottery ticket" in (compared / "report" / "report.html").read_text()


def test_a_sweep_of_the_link_is_faster_on_the_faster_one(tmp_path: Path) -> None:
    code, output = call(
        "sweep", *SMALL, "fleet.bandwidth=1e4,1e7", "--methods", "conventional", "--out", tmp_path
    )
    assert code == 0, output
    with (tmp_path / "report" / "tables" / "summary.csv").open() as file:
        slow, fast = csv.DictReader(file)
    assert slow["Method"] == "Conventional FL, bandwidth 10,000"
    assert fast["Method"] == "Conventional FL, bandwidth 10,000,000"
    (time,) = (name for name in slow if name.startswith("Simulated time"))
    assert float(slow[time]) > 10 * float(fast[time])


def test_a_failed_run_is_named_and_the_others_are_reported(tmp_path: Path) -> None:
    methods = "conventional,conventional:initial.client=0:training.learning_rate=1e30"
    code, output = call("compare", *SMALL, "--methods", methods, "--seeds", "1", "--out", tmp_path)
    assert code == 1
    assert "failed: Conventional FL" in output
    assert "1 of 2 runs failed" in output
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.parametrize("target", ["80", "0", "1", "nan"])
def test_a_target_that_is_no_share_is_refused_before_anything_runs(tmp_path: Path, target: str) -> None:
    code, output = call("compare", *SMALL, "--out", tmp_path / "never", "--target", target)
    assert code == 1
    assert f"--target {target}: must be between 0 and 1" in output
    assert not (tmp_path / "never").exists()


def test_a_sweep_can_be_shortened(tmp_path: Path) -> None:
    words = ("data.alpha=0.1,10", "scale=0.5", "--methods", "conventional", "--no-report")
    code, output = call("sweep", *SMALL, *words, "--out", tmp_path)
    assert code == 0, output
    assert "rounds = 2\n" in (tmp_path / "alpha-0.1" / "conventional" / "seed-0" / "config.toml").read_text()


def test_a_page_of_somebody_elses_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.html").write_text("mine")
    code, output = call("compare", *SMALL, "--methods", "conventional", "--seeds", "1", "--out", tmp_path)
    assert code == 1
    assert "was not written by `prunefl report`" in output
    assert not (tmp_path / "conventional").exists()
