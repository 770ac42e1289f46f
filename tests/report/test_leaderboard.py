"""Result files are what their records give, or are refused by name; the table pairs by seed."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.report.leaderboard import find_results, write_leaderboard
from prunefl.report.result_file import (
    compare_with_records,
    make_result,
    read_result,
    sign,
    task_digest,
    write_result,
)
from prunefl.report.runs import read_run
from prunefl.system.errors import PruneFLError
from synthetic import write_run

TARGETS = [0.5, 0.6, 0.84]


def runs_of(folder: Path, method: str, *settings: str, seeds: tuple[int, ...] = (0, 1, 2)) -> list[Path]:
    return [write_run(folder / f"{method}-{seed}", method, seed, *settings, rounds=100) for seed in seeds]


def a_result(folder: Path, method: str = "snip", seeds: tuple[int, ...] = (0, 1, 2)) -> Path:
    made = make_result(runs_of(folder, method, seeds=seeds), "femnist", TARGETS, f"prunefl run {method}")
    file = folder / f"{method}.json"
    write_result(made, file)
    return file


def test_a_result_has_every_seeds_numbers_as_its_records_give_them(tmp_path: Path) -> None:
    result = read_result(a_result(tmp_path))
    assert list(result["seeds"]) == ["0", "1", "2"]
    for seed, found in result["seeds"].items():
        run = read_run(tmp_path / f"snip-{seed}")
        assert found["score"] == run.delivered
        assert found["bytes"] == run.rounds[-1]["total"]["bytes_up"] + run.rounds[-1]["total"]["bytes_down"]
        first = next(r for r in run.rounds if r.get("accuracy", 0) >= 0.5)
        assert found["reached"]["0.5"]["rounds"] == first["round"]
        assert found["reached"]["0.5"]["seconds"] == first["total"]["seconds"]
        later = [r for r in run.rounds if r.get("accuracy", 0) >= 0.84]
        assert (found["reached"]["0.84"] is None) == (not later)
    compare_with_records(result, [tmp_path / f"snip-{seed}" for seed in range(3)], "it")


def test_a_file_that_was_edited_is_refused(tmp_path: Path) -> None:
    file = a_result(tmp_path)
    file.write_text(file.read_text().replace('"rounds": 100', '"rounds": 99', 1))
    with pytest.raises(PruneFLError, match=r"snip\.json: was changed after it was made"):
        read_result(file)


def test_a_file_whose_records_do_not_give_its_numbers_is_refused_by_the_number(tmp_path: Path) -> None:
    file = a_result(tmp_path)
    forged = json.loads(file.read_text())
    true = forged["seeds"]["1"]["score"]
    forged["seeds"]["1"]["score"] = 0.99
    write_result(forged | {"digest": sign(forged)}, file)
    words = rf"snip\.json: seeds\.1\.score=0\.99, but its records give {true}"
    with pytest.raises(PruneFLError, match=words):
        compare_with_records(read_result(file), [tmp_path / f"snip-{s}" for s in range(3)], str(file))


def test_a_missing_seed_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(PruneFLError, match=r"seed 1 is missing"):
        make_result(runs_of(tmp_path, "snip", seeds=(0, 2)), "femnist", TARGETS, "")
    file = a_result(tmp_path / "whole")
    cut = json.loads(file.read_text())
    del cut["seeds"]["0"]
    write_result(cut | {"digest": sign(cut)}, file)
    with pytest.raises(PruneFLError, match=r"snip\.json: seed 0 is missing"):
        read_result(file)
    three = read_result(a_result(tmp_path / "three"))
    two = [tmp_path / "three" / f"snip-{seed}" for seed in (0, 1)]
    with pytest.raises(PruneFLError, match=r"seeds\.2.* but its records give"):
        compare_with_records(three, two, "it")


def test_a_mixture_of_versions_is_refused(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "snip")
    records = runs[1] / "records.jsonl"
    header, rest = records.read_text().split("\n", 1)
    other = json.loads(header) | {"version": "9.9"}
    records.write_text(json.dumps(other) + "\n" + rest)
    with pytest.raises(
        PruneFLError, match=r"runs of different versions of prunefl are no result of one: .*9\.9"
    ):
        make_result(runs, "femnist", TARGETS, "")
    files = [a_result(tmp_path / name, name) for name in ("conventional", "synflow")]
    changed = json.loads(files[1].read_text()) | {"version": "9.9"}
    write_result(changed | {"digest": sign(changed)}, files[1])
    with pytest.raises(PruneFLError, match=r"task 'femnist': a mixture of versions .* synflow has 9\.9"):
        write_leaderboard(find_results(files), "")


@pytest.mark.parametrize(
    ("settings", "words"),
    [("training.batch_size=7", "tasks"), ("pruning.interval=7", "settings")],
)
def test_runs_of_other_settings_are_no_seeds_of_one_method(tmp_path: Path, settings: str, words: str) -> None:
    runs = runs_of(tmp_path, "snip", seeds=(0, 1))
    runs.append(write_run(tmp_path / "other", "snip", 2, settings, rounds=100))
    with pytest.raises(PruneFLError, match=f"runs of different {words} are no result of one"):
        make_result(runs, "femnist", TARGETS, "")


def test_unfinished_runs_and_two_methods_are_refused(tmp_path: Path) -> None:
    unfinished = write_run(tmp_path / "half", "snip", 0, rounds=100, end=False)
    with pytest.raises(PruneFLError, match=r"half: unfinished"):
        make_result([unfinished], "femnist", TARGETS, "")
    both = [*runs_of(tmp_path, "snip", seeds=(0,)), *runs_of(tmp_path, "synflow", seeds=(1,))]
    with pytest.raises(PruneFLError, match="different methods"):
        make_result(both, "femnist", TARGETS, "")


def test_a_task_is_the_same_wherever_its_files_lie_and_whatever_the_methods_rate(tmp_path: Path) -> None:
    one, two, three = (
        task_digest(read_run(write_run(tmp_path / name, "snip", 0, setting, rounds=20)).config)
        for name, setting in (
            ("a", "data.dir=here"),
            ("b", "training.learning_rate=0.03"),
            ("c", "training.local_steps=9"),
        )
    )
    assert one == two != three


def test_the_table_pairs_by_seed_and_says_reached_only_of_all_seeds(tmp_path: Path) -> None:
    files = [a_result(tmp_path / name, name) for name in ("conventional", "snip")]
    few = a_result(tmp_path / "few", "feddst", seeds=(0,))
    results = find_results([*files, few])
    # of one seed the target was never reached
    one_short = results[1]
    one_short["seeds"]["2"]["reached"]["0.6"] = None
    page = write_leaderboard(results, "prunefl leaderboard table here")
    middle = page.split("**To 60 %**")[1].split("**To")[0]
    rows = {line.split(" | ")[0].strip("| "): line for line in middle.splitlines() if line.startswith("| ")}
    assert "2 of 3 seeds" in rows["SNIP"]
    assert "| 1 of 3 |" in rows["FedDST"]
    conventional, snip = (r["seeds"] for r in results[:2])
    differences = [100 * (snip[s]["score"] - conventional[s]["score"]) for s in "012"]
    mean = sum(differences) / 3
    spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / 2)
    assert f"| {mean:+.1f} ± {4.303 * spread / math.sqrt(3):.1f} |" in rows["SNIP"]
    ratios = [
        math.log(snip[s]["reached"]["0.5"]["seconds"] / conventional[s]["reached"]["0.5"]["seconds"])
        for s in "012"
    ]
    first = next(line for line in page.splitlines() if line.startswith("| SNIP"))
    assert f"| {math.exp(sum(ratios) / 3):.2f} (" in first
    assert "`prunefl run snip`; seeds 0, 1, 2" in page


def test_a_comparison_by_few_seeds_says_so(tmp_path: Path) -> None:
    """Three seeds of a method beside one of conventional FL are one pair."""
    files = [a_result(tmp_path, "snip"), a_result(tmp_path, "conventional", seeds=(0,))]
    page = write_leaderboard(find_results(files), "")
    row = next(line for line in page.splitlines() if line.startswith("| SNIP"))
    assert row.count(", 1 of 3 seeds") == 3
    whole = [a_result(tmp_path / "w", "snip"), a_result(tmp_path / "w", "conventional")]
    assert "of 3 seeds |" not in write_leaderboard(find_results(whole), "").split("**To 60")[0]


def test_wall_times_of_a_shared_machine_are_left_out(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "snip")
    beside = make_result(runs, "femnist", TARGETS, "x", alone=False)
    assert beside["seeds"]["0"]["wall_seconds"] is None
    assert beside["seeds"]["0"]["reached"]["0.5"]["wall_seconds"] is None
    assert make_result(runs, "femnist", TARGETS, "x")["seeds"]["0"]["wall_seconds"] is not None
    compare_with_records(beside, runs, "it")
    row = next(line for line in write_leaderboard([beside], "").splitlines() if line.startswith("| SNIP"))
    assert row.split(" | ")[7] == "–"


def test_a_method_stands_once_on_a_task(tmp_path: Path) -> None:
    files = [a_result(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(PruneFLError, match="two results of SNIP"):
        write_leaderboard(find_results(files), "")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (("pruning.density_limit=0.1",), "PruneFL, at most 10 %"),
        (("pruning.density_limit=0.1", "pruning.density_target=0.05"), "PruneFL, at most 10 to 5 %"),
        (("pruning.density_target=0.05",), "PruneFL, at most 100 to 5 %"),
    ],
)
def test_a_row_says_what_size_the_model_had_to_keep(
    tmp_path: Path, settings: tuple[str, ...], name: str
) -> None:
    result = make_result(runs_of(tmp_path, "prunefl", *settings), "femnist", TARGETS, "x")
    assert f"| {name} | 3 |" in write_leaderboard([result], "")


def test_tickets_of_each_seeds_own_run_are_one_result(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / f"{seed}", "ticket", seed, f"pruning.masks=/runs/prunefl-{seed}", rounds=100)
        for seed in range(3)
    ]
    result = make_result(runs, "femnist", TARGETS, "x")
    assert list(result["seeds"]) == ["0", "1", "2"]
    assert "/runs" not in json.dumps(result)
    runs[2] = write_run(tmp_path / "none", "ticket", 2, rounds=100)
    with pytest.raises(PruneFLError, match="different settings"):
        make_result(runs, "femnist", TARGETS, "x")


def test_the_commands_make_check_and_show_results(tmp_path: Path) -> None:
    runs = [str(folder) for folder in runs_of(tmp_path, "snip")]
    file, page = str(tmp_path / "snip.json"), tmp_path / "leaderboard.md"
    call = CliRunner().invoke
    words = ["leaderboard", "result", *runs, "--task", "femnist", "--target", "0.5", "--out", file]
    made = call(app, [*words, "--command", "prunefl run femnist run.method=snip"])
    assert made.exit_code == 0, made.output
    assert "its records give its numbers" in call(app, ["leaderboard", "check", file, *runs]).output
    shown = call(app, ["leaderboard", "table", file, "--out", str(page)])
    assert shown.exit_code == 0, shown.output
    assert page.read_text().startswith("# Leaderboard\n")
    assert "| SNIP |" in page.read_text()
    assert f"By prunefl {read_result(Path(file))['version']}." in page.read_text()
    assert call(app, ["leaderboard", "table", file]).stdout == page.read_text()
    wrong = call(app, [*words, "--target", "80", "--command", "x"])
    assert isinstance(wrong.exception, PruneFLError)
    assert "--target 80, must be an accuracy" in str(wrong.exception)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "prunefl result 1"}', "not json"])
def test_what_is_no_result_file_is_said_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(PruneFLError, match=r"x\.json: not a result file"):
        find_results([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(PruneFLError, match="no result files"):
        find_results([tmp_path / "empty"])


def test_costs_of_a_small_network_are_told_in_smaller_units(tmp_path: Path) -> None:
    """A thousandth of the bytes and of the operations: nought point nothing would tell nobody anything."""
    file = a_result(tmp_path)

    def page(bytes_each: float, flops_each: float) -> str:
        result = read_result(file)
        for seed in result["seeds"].values():
            for found in filter(None, seed["reached"].values()):
                found.update(bytes=bytes_each, flops=flops_each)
        return write_leaderboard([result | {"targets": [0.5]}], "")

    large, small = page(2e9, 0.3e12), page(2e6, 0.3e9)
    assert "| bytes, GB | a client computes, TFLOPs |" in large
    assert "| 2.00 | 0.30 |" in large
    assert small == large.replace("bytes, GB", "bytes, MB").replace("TFLOPs", "GFLOPs")
