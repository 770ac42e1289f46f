"""What is missing or damaged is left out, and the report says so."""

import csv
import json
from pathlib import Path

import pytest

from prunefl.report import write_report
from prunefl.report.curves import accuracy_figures, size_figure
from prunefl.report.figures import Line
from prunefl.report.layers import heat_figures
from prunefl.report.runs import find_runs, read_run
from prunefl.report.special import limit_figures
from prunefl.report.study import Study, study
from prunefl.report.tables import summary_table, target_tables
from synthetic import TOTAL, write_run


def only_first_line(folder: Path) -> None:
    first = (folder / "records.jsonl").read_text().splitlines(keepends=True)[0]
    (folder / "records.jsonl").write_text(first)


def test_no_runs_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder"):
        write_report([tmp_path / "none"], tmp_path)
    with pytest.raises(ValueError, match="no runs found"):
        write_report([tmp_path], tmp_path)


def test_a_damaged_file_is_used_up_to_the_damage_and_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "a", "conventional", 0, rounds=60)
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:31]) + lines[31][:40])
    written = write_report([tmp_path / "runs"], tmp_path / "out", figures=())
    assert any("line 32 is damaged; the 31 records before it are used" in note for note in written.notes)
    assert any("unfinished: 30 of 60 rounds" in note for note in written.notes)
    assert "line 32 is damaged" in written.page.read_text()


@pytest.mark.parametrize(
    "damage", ["[]", '{"kind": 3}', '{"kind": "round", "round": 1}', "\x00\xff", "without density"]
)
def test_any_nonsense_line_ends_the_readable_part(tmp_path: Path, damage: str) -> None:
    folder = write_run(tmp_path / "a", "conventional", 0, rounds=20)
    if damage == "without density":
        whole = json.loads((folder / "records.jsonl").read_text().splitlines()[20])
        damage = json.dumps({key: value for key, value in whole.items() if key != "density"})
    with (folder / "records.jsonl").open("a") as file:
        file.write(damage + "\n")
    run = read_run(folder)
    assert len(run.rounds) == 20
    assert "damaged" in run.notes[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"seconds": None},
        {"seconds": [1]},
        {"live": {"0.weight": "many"}},
        {"live": [1]},
        {"total": {"seconds": 1, "bytes_up": 1, "bytes_down": 1, "flops": 1, "wall_seconds": None}},
        {"round": 10**400},
        {"accuracy": "x"},
        {"accuracy": float("nan")},
        {"density": float("inf")},
        {"kind": "initial", "segments": [{}]},
        {"kind": "initial", "segments": 5},
        {"kind": "initial", "segments": [], "seconds": 3},
    ],
)
def test_a_line_with_something_else_than_numbers_is_damaged(tmp_path: Path, damage: dict) -> None:
    folder = write_run(tmp_path / "runs" / "a", "conventional", 0, rounds=20)
    lines = (folder / "records.jsonl").read_text().splitlines()
    lines[15] = json.dumps(json.loads(lines[15]) | damage)
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    written = write_report([tmp_path / "runs"], tmp_path / "out", figures=())
    assert any("line 16 is damaged" in note and "run it again" in note for note in written.notes)


def test_a_line_that_nests_too_deeply_is_damaged(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "conventional", 0, rounds=20)
    with (folder / "records.jsonl").open("a") as file:
        file.write("[" * 200_000 + "\n")
    assert "line 23 is damaged" in read_run(folder).notes[0]


@pytest.mark.parametrize("text", ['{"settings": null}', '{"settings": [1]}', "[1]"])
def test_a_variant_file_without_settings_is_said(tmp_path: Path, text: str) -> None:
    write_run(tmp_path / "whole", "conventional", 0, rounds=20)
    folder = write_run(tmp_path / "odd", "conventional", 1, rounds=20)
    (folder / "variant.json").write_text(text)
    runs, notes = find_runs([tmp_path])
    assert [run.seed for run in runs] == [0]
    assert "variant.json: must hold an object, and one as its settings" in notes[0]


def test_runs_that_cannot_be_shown_are_left_out_and_said(tmp_path: Path) -> None:
    for name, seed in (("whole", 0), ("damaged", 1), ("begun", 2), ("odd", 3)):
        write_run(tmp_path / "runs" / name, "conventional", seed, rounds=20)
    (tmp_path / "runs" / "damaged" / "records.jsonl").write_text("nonsense\n")
    only_first_line(tmp_path / "runs" / "begun")
    (tmp_path / "runs" / "odd" / "config.toml").write_text("[run\n")
    written = write_report([tmp_path / "runs"], tmp_path / "out", figures=())
    assert written.runs == 1
    for words in (
        "damaged/records.jsonl: its first line is not a readable record of kind 'run'",
        "begun: left out: unfinished: 0 of 20 rounds",
        "odd/config.toml: not valid TOML",
    ):
        assert any(words in note for note in written.notes)
    assert "begun: left out" in written.page.read_text()


def test_where_nothing_can_be_shown_every_run_is_named_and_what_to_do(tmp_path: Path) -> None:
    for name, seed in (("damaged", 0), ("begun", 1)):
        only_first_line(write_run(tmp_path / name, "conventional", seed, rounds=20))
    (tmp_path / "damaged" / "records.jsonl").write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"no run to show; .*--resume.*anew:\n.*begun.*\n.*damaged"):
        find_runs([tmp_path])


def cut(folder: Path, rounds: int) -> None:
    """Leave a run's records as a killed run leaves them."""
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line).get("round", 0) <= rounds and '"end"' not in line]
    (folder / "records.jsonl").write_text("".join(kept))


def told(folder: Path) -> Study:
    return study(find_runs([folder])[0])


def test_an_unfinished_seed_is_left_out_of_averages_and_curves(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / "all" / str(seed), "prunefl", seed, rounds=60)
        if seed != 1:
            write_run(tmp_path / "two" / str(seed), "prunefl", seed, rounds=60)
    cut(tmp_path / "all" / "1", 20)
    found, expected = told(tmp_path / "all"), told(tmp_path / "two")
    assert summary_table(found) == summary_table(expected)
    assert accuracy_figures(found, found.plain) == accuracy_figures(expected, expected.plain)
    assert size_figure(found, found.plain) == size_figure(expected, expected.plain)
    assert heat_figures(found, found.plain) == heat_figures(expected, expected.plain)
    assert "PruneFL: seed 1 left out of the averages: unfinished" in found.notes


def test_a_method_without_a_finished_run_is_marked_wherever_it_is_named(tmp_path: Path) -> None:
    cut(write_run(tmp_path / "runs" / "snip", "snip", 0, rounds=60), 40)
    write_run(tmp_path / "runs" / "prunefl", "prunefl", 0, rounds=60)
    write_report([tmp_path / "runs"], tmp_path / "out", figures=())
    for ending in ("csv", "md", "tex"):
        for name in ("summary", "layers", "split"):
            assert "SNIP (unfinished)" in (tmp_path / "out" / "tables" / f"{name}.{ending}").read_text()
    with (tmp_path / "out" / "tables" / "summary.csv").open() as file:
        assert [row["Method"] for row in csv.DictReader(file)] == ["PruneFL", "SNIP (unfinished)"]


def test_best_is_only_who_is_finished_and_reached_the_target_with_every_seed(tmp_path: Path) -> None:
    ends = (1, 1, 1, 1)
    for seed, accuracy in enumerate((0.6, 0.9, 0.6)):
        # reaches 70 % at once, but with one seed of three
        write_run(tmp_path / "lucky" / str(seed), "snip", seed, rounds=60, shape=(accuracy, 1, ends))
        write_run(tmp_path / "sure" / str(seed), "prunefl", seed, rounds=60, shape=(0.82, 15, ends))
    cut(write_run(tmp_path / "early", "synflow", 0, rounds=60, shape=(0.99, 1, ends)), 40)
    found = told(tmp_path)
    assert [v.label for v in found.variants] == ["PruneFL", "SNIP", "SynFlow (unfinished)"]
    target = target_tables(found, [0.7])[0]
    assert [row[1] for row in target.rows] == ["3 of 3", "1 of 3", "1 of 1"]
    # a mean over lucky seeds is none
    assert target.rows[1][2:] == ("–",) * 4
    assert target.best == {(0, place) for place in (2, 3, 4, 5)}
    assert summary_table(found).best == {(0, 2)}
    assert target_tables(found, [0.85])[0].best == frozenset()


def test_runs_without_an_evaluation_have_no_accuracy_figure_and_no_best(tmp_path: Path) -> None:
    for alpha in (0.1, 1.0):
        settings = {"data.alpha": alpha}
        folder = write_run(
            tmp_path / "runs" / str(alpha),
            "prunefl",
            0,
            f"data.alpha={alpha}",
            rounds=9,
            variant={"kind": "sweep", "settings": settings},
        )
        assert '"test_loss"' not in (folder / "records.jsonl").read_text()
    written = write_report([tmp_path / "runs"], tmp_path / "out", figures=["svg"])
    figures = {path.stem for path in written.files if path.suffix == ".svg"}
    assert not [name for name in figures if "accuracy" in name]
    assert {"size", "sweep-data-alpha-density"} <= figures
    assert "**" not in (tmp_path / "out" / "tables" / "summary.md").read_text().partition("\n")[2]


def test_the_limit_of_an_unfinished_run_goes_to_its_last_round_though_all_runs_have_it(
    tmp_path: Path,
) -> None:
    limits = ("pruning.density_limit=0.5", "pruning.density_target=0.1")
    cut(write_run(tmp_path / "a", "prunefl", 0, *limits, rounds=60), 20)
    size, accuracy = limit_figures(told(tmp_path))
    assert (size.name, accuracy.name) == ("limited-size", "limited-accuracy-time")
    assert size.lines == (
        Line("limit of PruneFL (unfinished)", [0, 60], pytest.approx([0.5 * TOTAL / 1e6, 0.1 * TOTAL / 1e6])),
    )
