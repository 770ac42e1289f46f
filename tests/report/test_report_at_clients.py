"""What a report, a screen and a logger show of evaluation at the clients, from the records of real runs."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from prunefl.commands.progress import Lines
from prunefl.commands.summary import summary_table
from prunefl.report import write_report
from prunefl.report.costs import split_seconds
from prunefl.report.curves import accuracy_figures, clients_figures
from prunefl.report.picture import draw_run
from prunefl.report.runs import find_runs, read_run
from prunefl.report.study import study
from prunefl.runs.api import train
from prunefl.runs.loggers import scalars
from tasks import small_clients, small_config, small_data, small_model


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("tested") / "run")


@pytest.fixture(scope="module")
def untested(tested: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run as a server without a test set would have written it."""
    folder = tmp_path_factory.mktemp("untested")
    records = [
        {key: value for key, value in r.items() if key not in ("accuracy", "test_loss")} for r in read(tested)
    ]
    (folder / "config.toml").write_text((tested / "config.toml").read_text())
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def run(folder: Path) -> Path:
    config = small_config(
        run={"rounds": 4, "method": "conventional"}, evaluation={"share": 0.2, "personal_steps": 3}
    )
    train(small_model(), small_clients(), test=small_data(80, 99), config=config, out=folder)
    return folder


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def figures(folder: Path, make: Any) -> Any:
    runs, notes = find_runs([folder])
    told = study(runs, (), notes)
    return make(told, told.plain)


def test_the_report_has_a_curve_beside_the_servers_and_a_table_of_the_spread(
    tested: Path, tmp_path: Path
) -> None:
    write_report([tested], tmp_path, figures=["svg"])
    assert (tmp_path / "figures" / "clients-round.svg").stat().st_size
    assert (tmp_path / "figures" / "accuracy-round.svg").stat().st_size
    with (tmp_path / "tables" / "clients.csv").open() as file:
        head, row = csv.reader(file)
    last = read(tested)[-2]["evaluation"]
    each = sorted(right / samples for right, samples in last["by_client"].values())
    expected = [last["accuracy"], sum(each) / 4, each[0], (each[1] + each[2]) / 2, each[3]]
    assert row[1:3] == ["4", "56"]
    assert row[3:] == [f"{100 * value:.2f}" for value in expected]
    assert head[5] == "Worst tenth (%)"
    with (tmp_path / "tables" / "personal.csv").open() as file:
        _, *rows = csv.reader(file)
    expected_rows = [
        [
            client,
            *(
                f"{100 * right / of:.2f}"
                for right, of in (last["by_client"][client], last["personal"][client])
            ),
        ]
        for client in "0123"
    ]
    assert rows == expected_rows


def test_curves_are_of_the_test_set_and_of_the_clients(tested: Path) -> None:
    rounds = [r for r in read(tested) if "evaluation" in r]
    server, clients = figures(tested, accuracy_figures)[1], figures(tested, clients_figures)[1]
    assert server.y_label == "Test accuracy (%)"
    assert server.curves[0].y == [100 * r["accuracy"] for r in rounds]
    assert clients.curves[0].x == [2, 4]
    assert clients.curves[0].y == [100 * r["evaluation"]["accuracy"] for r in rounds]


def test_without_a_test_set_the_accuracy_is_the_clients(untested: Path, tmp_path: Path) -> None:
    rounds = [r for r in read(untested) if "evaluation" in r]
    shown = figures(untested, accuracy_figures)[1]
    assert shown.y_label == "Accuracy at the clients (%)"
    assert shown.curves[0].y == [100 * r["evaluation"]["accuracy"] for r in rounds]
    write_report([untested], tmp_path, targets=[0.01], figures=["svg"])
    with (tmp_path / "tables" / "target-1.csv").open() as file:
        assert list(csv.reader(file))[1][1] == "1 of 1"
    assert draw_run(read(untested), tmp_path)


def test_the_parts_of_the_time_add_up_with_evaluation_among_them(tested: Path) -> None:
    split = split_seconds(read_run(tested))
    assert split["evaluation"] > 0
    assert sum(split.values()) == pytest.approx(read(tested)[-2]["total"]["seconds"])


def test_a_damaged_evaluation_is_a_damaged_line(untested: Path, tmp_path: Path) -> None:
    records = read(untested)
    records[4]["evaluation"]["by_client"]["0"] = [3, 0]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    told = read_run(tmp_path)
    assert len(told.rounds) == 3
    assert "line 5 is damaged" in told.notes[0]


def test_a_line_and_the_summary_show_the_accuracy_at_the_clients(
    tested: Path, untested: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, word in ((tested, "accuracy"), (untested, "at 4 clients")):
        screen, record = Lines(small_config(), Console()), read(folder)[2]
        found = record["evaluation"]
        screen.show(record)
        line = capsys.readouterr().err
        assert line.split("round 2  ")[1].startswith(word)
        assert f"at 4 clients {found['accuracy']:.2%} (worst tenth {found['worst_tenth']:.2%})" in line
    table = summary_table([("a", read(untested))], 0.01)
    rows = dict(zip(*(column.cells for column in table.columns), strict=True))
    assert list(rows)[:3] == ["accuracy", "at the clients", "worst tenth"]
    last = read(untested)[-2]["evaluation"]
    assert rows["at the clients"] == f"{last['accuracy']:.2%}"
    assert rows["simulated to 1%"] != "not reached"


def test_loggers_have_the_clients_numbers_too(tested: Path) -> None:
    record = read(tested)[2]
    named = dict(scalars(record))
    assert named["clients/accuracy"] == record["evaluation"]["accuracy"]
    assert named["clients/worst_tenth"] == record["evaluation"]["worst_tenth"]
