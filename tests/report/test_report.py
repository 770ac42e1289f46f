"""The report says what the records say, and says what it could not read."""

import csv
import re
from pathlib import Path

import pytest

from prunefl.report import write_report
from prunefl.report.costs import percent_off, predicted_and_charged, prediction_figure
from prunefl.report.curves import size_figure
from prunefl.report.draw import draw
from prunefl.report.palette import colours
from prunefl.report.runs import find_runs, read_run
from prunefl.report.statistics import estimate, signed
from prunefl.report.study import study
from prunefl.report.tables import summary_table, target_tables
from prunefl.report.write import Written
from prunefl.runs.api import train
from synthetic import LAYERS, TOTAL, accuracies, rows, write_run
from tasks import small_clients, small_config, small_data, small_model


def table(written: Written, name: str) -> list[dict[str, str]]:
    with (written.page.parent / "tables" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_figure_and_table_lies_beside_the_page(written: Written) -> None:
    out = written.page.parent
    figures = {path.stem for path in (out / "figures").iterdir()}
    assert all((out / "figures" / f"{name}.svg").stat().st_size for name in figures)
    tables = {path.stem for path in (out / "tables").iterdir()}
    assert {"summary", "target-50", "target-84", "layers", "split"} == tables
    expected = {f"accuracy-{axis}" for axis in ("time", "round", "bytes", "flops", "wall-time")}
    expected |= {
        "size",
        "cost-run",
        "cost-round",
        "prediction",
        "lottery-round",
        "snip-densities-time",
        "limited-size",
    }
    assert expected <= figures
    links = re.findall(r'href="((?:figures|tables)/[^"]+)"', written.page.read_text())
    assert links
    assert all((out / link).is_file() for link in links)


def test_the_page_refers_to_nothing_outside_itself(written: Written) -> None:
    text = written.page.read_text()
    outside = re.sub(r'"http://www.w3.org/2000/svg"', "", text)
    assert not re.search(r"https?://|@import|url\(", outside)
    assert "default-src 'none'" in text


def test_final_accuracy_is_the_delivered_models_and_an_average_is_called_one(
    written: Written, comparison: Path
) -> None:
    ends = [accuracies(comparison / "prunefl" / f"seed-{seed}") for seed in (0, 1)]
    found = next(row for row in table(written, "summary") if row["Method"] == "PruneFL")
    tenth = -(-len(ends[0]) // 10)
    means = [sum(end[-tenth:]) / tenth for end in ends]
    columns = [("Final accuracy (%)", [end[-1] for end in ends])]
    columns += [("Average over the last tenth of evaluations (%)", means)] if tenth > 1 else []
    for name, values in columns:
        assert float(found[name]) == pytest.approx(sum(values) / 2, abs=0.006)
        # two seeds: their range, never an interval
        assert float(found[f"{name}, lowest"]) == pytest.approx(min(values), abs=0.006)
        assert float(found[f"{name}, highest"]) == pytest.approx(max(values), abs=0.006)
        assert f"{name} ±" not in found


@pytest.mark.parametrize(("rounds", "has_average"), [(100, False), (110, True)])
def test_one_evaluation_is_not_called_an_average(tmp_path: Path, rounds: int, has_average: bool) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=rounds)
    found = summary_table(study(find_runs([tmp_path])[0]))
    assert ("Average over the last tenth of evaluations (%)" in found.columns) == has_average
    if has_average:
        last = accuracies(folder)[-2:]
        assert found.rows[0][3] == f"{sum(last) / 2:.2f}"


def test_a_difference_to_conventional_federated_learning_is_taken_seed_by_seed(tmp_path: Path) -> None:
    for seed in range(3):
        for method in ("conventional", "snip"):
            write_run(tmp_path / method / str(seed), method, seed, rounds=100)
    runs, _ = find_runs([tmp_path])
    ends = {(run.method, run.seed): 100 * (run.delivered or 0) for run in runs}
    found = summary_table(study(runs))
    place = found.columns.index("Less Conventional FL, by seed (%)")
    cells = {row[0]: row[place] for row in found.rows}
    expected = estimate([ends["snip", seed] - ends["conventional", seed] for seed in range(3)])
    assert cells == {"SNIP": signed(expected), "Conventional FL": "–"}


def test_an_interval_that_says_nothing_is_not_printed(tmp_path: Path) -> None:
    for seed, slowness in enumerate((3, 3, 900)):
        write_run(tmp_path / str(seed), "snip", seed, rounds=400, shape=(0.9, slowness, (1, 1, 1, 1)))
    cost = target_tables(study(find_runs([tmp_path])[0]), [0.4])[0].rows[0]
    assert re.fullmatch(r"[\d,.]+ \([\d,.]+–[\d,.]+\)", cost[3])


def test_cost_to_reach_a_target_is_that_of_the_first_evaluation_at_it(
    written: Written, comparison: Path
) -> None:
    costs = []
    for seed in (0, 1):
        reached = next(
            r
            for r in rows(comparison / "snip" / f"seed-{seed}")
            if r["kind"] == "round" and r.get("accuracy", 0) >= 0.5
        )
        costs.append(reached["total"]["seconds"])
    found = next(row for row in table(written, "target-50") if row["Method"] == "SNIP")
    assert found["Seeds that reached it"] == "2 of 2"
    assert float(found["Simulated time (min)"]) == pytest.approx(sum(costs) / 2 / 60, abs=0.06)
    never = next(row for row in table(written, "target-84") if row["Method"] == "SNIP at 1 %")
    assert never["Seeds that reached it"] == "0 of 2"
    assert never["Round"] == ""


def test_layer_densities_are_live_over_size(written: Written, comparison: Path) -> None:
    last = [r for r in rows(comparison / "snip" / "seed-0") if "live" in r][-1]["live"]
    for row, (name, size) in zip(table(written, "layers"), LAYERS.items(), strict=True):
        assert float(row["SNIP"]) == pytest.approx(100 * last[name] / size, abs=0.06)


def test_initial_pruning_has_an_axis_of_its_own_in_local_steps(comparison: Path) -> None:
    told = study(find_runs([comparison / "prunefl"])[0])
    figure = size_figure(told, told.plain)
    assert figure.before == "Initial pruning (steps)"
    assert [curve.part for curve in figure.curves] == ["seed 0", "seed 1"]
    # 5 segments of 500 steps
    assert [curve.x[0] for curve in figure.curves] == [-2500, -2500]
    assert figure.curves[0].y[0] == pytest.approx(TOTAL / 1e6)
    assert figure.curves[0].x[-1] == 100
    snip = study(find_runs([comparison / "snip"])[0])
    assert size_figure(snip, snip.plain).before == ""


@pytest.mark.parametrize("method", ["prunefl", "conventional", "further-only"])
def test_the_size_of_a_real_run_is_its_density_in_every_round(tmp_path: Path, method: str) -> None:
    config = small_config(run={"method": method})
    run = train(small_model(), small_clients(), test=small_data(40, 9), config=config, out=tmp_path)
    told = study(find_runs([tmp_path])[0])
    curve = size_figure(told, told.plain).curves[0]
    shown = {at: size for at, size in zip(curve.x, curve.y, strict=True) if at >= 0}
    before = sum((run.records[1] if method == "prunefl" else run.records[0])["live"].values())
    assert shown.pop(0.0) == before / 1000
    rounds = [record for record in run.records if record["kind"] == "round"]
    prunable = run.records[0]["prunable"] / 1000
    assert shown == {r["round"]: pytest.approx(r["density"] * prunable) for r in rounds}


def test_predictions_are_compared_over_rounds_that_collect_no_importance(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "prunefl", 0, rounds=100)
    lines = (folder / "records.jsonl").read_text()
    # a reconfiguration that came to the same masks has sent importance all the same
    (folder / "records.jsonl").write_text(lines.replace('"reconfigured": true', '"reconfigured": false'))
    charged = {r["round"]: r["seconds"]["total"] for r in rows(folder) if r["kind"] == "round"}
    pairs = predicted_and_charged(read_run(folder))
    assert [seconds for _, seconds in pairs] == [charged[n] for n in charged if n not in (1, 50, 100)]
    told = study(find_runs([tmp_path])[0])
    curve = prediction_figure(told.plain).curves[0]
    assert {round(y, 9) for y in curve.y} <= {round(100 * (c / p - 1), 9) for p, c in pairs}


def test_the_error_of_predictions_is_their_mean_distance_in_percent() -> None:
    assert percent_off([(11.0, 10.0), (19.0, 20.0)]) == pytest.approx(7.5)


def test_a_round_that_sends_new_masks_is_not_compared(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "prunefl", 0, rounds=100)
    charged = {r["round"]: r["seconds"]["total"] for r in rows(folder) if r["kind"] == "round"}
    pairs = predicted_and_charged(read_run(folder))
    assert [seconds for _, seconds in pairs] == [charged[n] for n in charged if n not in (1, 50, 51, 100)]


def test_the_same_records_give_the_same_files(comparison: Path, tmp_path: Path) -> None:
    pages = [write_report([comparison / "snip"], tmp_path / name, figures=()) for name in "ab"]
    for one, other in zip(pages[0].files, pages[1].files, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert pages[0].page.read_text() == pages[1].page.read_text()


def test_the_same_figure_gives_the_same_bytes(comparison: Path, tmp_path: Path) -> None:
    told = study(find_runs([comparison / "snip"])[0])
    figure = size_figure(told, told.plain)
    paths = draw(figure, colours(told.variants), tmp_path)
    first = [path.read_bytes() for path in paths]
    assert [path.suffix for path in paths] == [".svg", ".pdf"]
    assert [data[:5] for data in first] == [b"<?xml", b"%PDF-"]
    assert [path.read_bytes() for path in draw(figure, colours(told.variants), tmp_path)] == first


def test_a_second_report_leaves_nothing_of_the_first_and_all_of_the_users(tmp_path: Path) -> None:
    for method in ("prunefl", "snip"):
        write_run(tmp_path / "runs" / method, method, 0, rounds=20)
    out = tmp_path / "out"
    write_report([tmp_path / "runs"], out, targets=[0.1], figures=["svg"])
    assert (out / "figures" / "layers-prunefl.svg").is_file()
    own = [out / "figures" / "layers-mine.svg", out / "tables" / "notes.md"]
    for path in own:
        path.write_text("the user's")
    second = write_report([tmp_path / "runs" / "snip"], out, targets=[0.2], figures=["svg"])
    left = {path for folder in ("figures", "tables") for path in (out / folder).iterdir()}
    assert left == {*second.files, *own}


def test_a_page_of_somebody_elses_is_not_replaced(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", "snip", 0, rounds=20)
    out = tmp_path / "site"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "mine.png").write_text("the user's")
    (out / "report.html").write_text('<a href="figures/mine.png">mine</a>')
    with pytest.raises(
        ValueError, match="was not written by `prunefl report`: move it, or give another --out"
    ):
        write_report([tmp_path / "runs"], out)
    assert sorted(path.name for path in out.rglob("*.*")) == ["mine.png", "report.html"]
    assert "mine" in (out / "report.html").read_text()
