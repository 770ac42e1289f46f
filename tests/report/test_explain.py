"""Why a model has its size: told from records alone, and true to them."""

from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.commands.progress import Lines
from prunefl.report.explain import explained, find_lost, history_table, layers_table, sentences
from prunefl.report.runs import RecordedRun, read_run
from prunefl.report.write import write_report
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model


def make_run(folder: Path, method: str, **pruning: float) -> RecordedRun:
    config = small_config(run={"method": method}, pruning={"interval": 2, **pruning})
    train(small_model(), small_clients(), test=small_data(40, 99), config=config, out=folder)
    return read_run(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return make_run(tmp_path_factory.mktemp("run"), "prunefl-fisher", density_limit=0.9)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_what_was_cut_and_grown_leads_from_the_first_size_to_the_last(run: RecordedRun) -> None:
    rows = history_table(run).rows
    size, live = sum(run.header["layers"].values()), sum(run.rounds[-1]["live"].values())
    assert size - sum(number(row[1]) for row in rows) + sum(number(row[2]) for row in rows) == live
    assert [row[0] for row in rows if row[0].startswith("round")] == ["round 2", "round 4", "round 6"]
    assert rows[-1][3] == f"{100 * live / size:.2f}"


def test_every_row_has_the_loss_before_and_after(run: RecordedRun) -> None:
    losses = {record["round"]: f"{record['loss']:.3f}" for record in run.rounds}
    told = {row[0]: row[6] for row in history_table(run).rows}
    assert told["round 4"] == f"{losses[4]} → {losses[5]}"


def test_layers_have_the_time_and_the_price_of_their_last_cut(run: RecordedRun) -> None:
    for row, (layer, size) in zip(layers_table(run).rows, run.header["layers"].items(), strict=True):
        shape = run.header["shapes"][layer]
        kind = "Conv2d" if len(shape) == 4 else "Linear"
        assert row[0] == f"{layer.removesuffix('.weight')}, {kind} {'×'.join(map(str, shape))}"
        assert row[2] == f"{100 * run.rounds[-1]['live'][layer] / size:.1f}"
        cuts = [
            (record["round"], record["reconfiguration"]["layers"][layer])
            for record in run.rounds
            if "reconfiguration" in record and record["reconfiguration"]["layers"][layer]["cut"]
        ]
        assert row[6] == (f"{cuts[-1][1]['cut']:,} in round {cuts[-1][0]}" if cuts else "never")
        if cuts:
            assert row[5] == f"{cuts[-1][1]['lost'] / cuts[-1][1]['saved']:.3g}"


def test_sentences_say_gamma_the_stage_before_and_the_limit(run: RecordedRun) -> None:
    said = " ".join(sentences(run))
    last = [record["reconfiguration"] for record in run.rounds if "reconfiguration" in record][-1]
    assert f"Γ was {last['gamma']:.3g} a second" in said
    assert "it ended after 12 passes at the largest number of passes" in said
    assert "its limit, 90 % (pruning.density_limit)" in said


@pytest.mark.parametrize("method", ["prunefl", "prunefl-fisher", "further-only"])
def test_the_command_and_the_report_show_it(method: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", method)
    shown = CliRunner().invoke(app, ["explain", str(tmp_path / "run")])
    assert shown.exit_code == 0
    assert "What was cut when" in shown.output
    assert "round 6" in shown.output
    page = write_report([tmp_path / "run"], tmp_path / "out", figures=()).page.read_text()
    assert "Why this size" in page


def test_a_run_that_never_chose_is_refused_in_one_line(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "conventional")
    assert not explained(run)
    for folder, rule in (
        (tmp_path / "run", "no reconfiguration to explain"),
        (tmp_path, "must be the folder"),
    ):
        refused = CliRunner().invoke(app, ["explain", str(folder)])
        assert refused.exit_code != 0
        assert rule in str(refused.exception)


@pytest.mark.parametrize(
    ("accuracies", "lost"),
    [([0.1, 0.7, 0.34], True), ([0.1, 0.7, 0.36], False), ([0.1], False), ([0.0, 0.0], False), ([], False)],
)
def test_a_first_stage_that_lost_what_it_had_learned_is_told_of(accuracies: list[float], lost: bool) -> None:
    said = find_lost({"segments": [{"accuracy": accuracy} for accuracy in accuracies]})
    assert said.startswith("Initial pruning lost what it had learned: accuracy 70% on the way, 34%") == lost
    assert bool(said) == lost


def test_who_looks_on_is_told_of_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Lines(small_config(), Console())
    total = {"seconds": 1.0, "wall_seconds": 1.0, "bytes_up": 1, "bytes_down": 1}
    record = {"kind": "initial", "density": 0.1, "total": total}
    screen.show({**record, "segments": [{"accuracy": 0.5}, {"accuracy": 0.4}]})
    assert "lost" not in capsys.readouterr().err
    screen.show({**record, "segments": [{"accuracy": 0.5}, {"accuracy": 0.1}]})
    assert "accuracy 50% on the way, 10% at its end; lower training.learning_rate" in capsys.readouterr().err
