"""The report says what the records say, and says what it could not read."""

import csv
import json
import re
from pathlib import Path

import pytest
from synthetic import LAYERS, TOTAL, write_run

from prunefl.report import write_report
from prunefl.report.costs import percent_off, predicted_and_charged, prediction_figure
from prunefl.report.curves import accuracy_figures, size_figure
from prunefl.report.draw import draw
from prunefl.report.palette import colours
from prunefl.report.runs import find_runs, read_run
from prunefl.report.study import study
from prunefl.report.tables import summary_table
from prunefl.report.write import Written
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model


def table(written: Written, name: str) -> list[dict[str, str]]:
    with (written.page.parent / "tables" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


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


def test_the_summary_is_the_mean_of_the_delivered_models_over_seeds(
    written: Written, comparison: Path
) -> None:
    finals = []
    for seed in (0, 1):
        accuracies = [
            r["accuracy"]
            for r in rows(comparison / "prunefl" / f"seed-{seed}")
            if r.get("accuracy") and r["kind"] == "round"
        ]
        finals.append(100 * accuracies[-1])
    mean = sum(finals) / 2
    half = 12.706 * abs(finals[0] - finals[1]) / 2
    found = next(row for row in table(written, "summary") if row["Method"] == "PruneFL")
    assert float(found["Accuracy (%)"]) == pytest.approx(mean, abs=0.006)
    assert float(found["Accuracy (%) ±"]) == pytest.approx(half, abs=0.006)


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
    assert float(found["Simulated time (min)"]) == pytest.approx(sum(costs) / 2 / 60, abs=0.006)
    never = next(row for row in table(written, "target-84") if row["Method"] == "SNIP at 1 %")
    assert never["Seeds that reached it"] == "0 of 2"
    assert never["Round"] == ""


def test_layer_densities_are_live_over_size(written: Written, comparison: Path) -> None:
    last = [r for r in rows(comparison / "snip" / "seed-0") if "live" in r][-1]["live"]
    for row, (name, size) in zip(table(written, "layers"), LAYERS.items(), strict=True):
        assert float(row["SNIP"]) == pytest.approx(100 * last[name] / size, abs=0.06)


def test_initial_pruning_lies_at_negative_rounds(comparison: Path) -> None:
    told = study(find_runs([comparison / "prunefl"])[0])
    curve = size_figure(told, told.plain).curves[0]
    # 5 segments of 500 steps, 5 steps a round
    assert curve.x[0] == -500
    assert curve.y[0] == pytest.approx(TOTAL / 1e6)
    assert curve.x[-1] == 100


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
    assert prediction_figure(told.plain).y_label == "Charged by the simulated clock (s)"


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


def test_the_interval_is_told_whole_where_its_band_is_cut(tmp_path: Path) -> None:
    for seed, reached in enumerate((0.2, 0.9)):
        write_run(tmp_path / str(seed), "snip", seed, rounds=40, shape=(reached, 5, (1, 1, 1, 1)))
    told = study(find_runs([tmp_path])[0])
    curve = accuracy_figures(told.plain)[1].curves[0]
    one, other = (
        [
            100 * r["accuracy"]
            for r in rows(tmp_path / str(seed))
            if r.get("accuracy") and r["kind"] == "round"
        ]
        for seed in (0, 1)
    )
    expected = 12.706 * abs(one[-1] - other[-1]) / 2
    assert expected > 100
    assert curve.half[-1] == pytest.approx(expected)
    assert (curve.low[-1], curve.high[-1]) == (0, 100)


def test_all_that_are_best_are_marked(tmp_path: Path) -> None:
    for method in ("erk", "set", "rigl"):
        accuracy = 0.5 if method == "rigl" else 0.8
        write_run(tmp_path / method, method, 0, rounds=40, shape=(accuracy, 5, (1, 1, 1, 1)))
        lines = rows(tmp_path / method)
        for record in lines:
            if "accuracy" in record:
                record["accuracy"] = accuracy
        (tmp_path / method / "records.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    told = study(find_runs([tmp_path])[0])
    assert summary_table(told).best == {
        (place, 2) for place, v in enumerate(told.variants) if v.method != "rigl"
    }


def test_a_variant_never_has_the_colour_of_another_method(tmp_path: Path) -> None:
    for method in ("prunefl", "snip", "synflow"):
        write_run(tmp_path / method, method, 0, rounds=20)
    write_run(
        tmp_path / "limit",
        "prunefl",
        0,
        "pruning.density_limit=0.1",
        rounds=20,
        variant={"kind": "method", "settings": {"pruning.density_limit": 0.1}},
    )
    told = study(find_runs([tmp_path])[0])
    assert len({light for light, *_ in colours(told.variants).values()}) == 4


def test_a_target_must_be_a_fraction(comparison: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--target 80: must be between 0 and 1"):
        write_report([comparison], tmp_path, targets=[80])


def test_labels_are_escaped_in_page_and_latex(tmp_path: Path) -> None:
    label = "<script>alert(1)</script> & 100%_"
    write_run(tmp_path / "runs" / "a", "snip", 0, rounds=20, variant={"kind": "method", "label": label})
    written = write_report([tmp_path / "runs"], tmp_path / "out", figures=())
    assert "<script>alert" not in written.page.read_text()
    latex = (tmp_path / "out" / "tables" / "summary.tex").read_text()
    assert r"\& 100\%\_" in latex


def test_a_sweep_is_drawn_against_its_setting(tmp_path: Path) -> None:
    for alpha in (0.1, 1.0, 10.0):
        variant = {"kind": "sweep", "settings": {"data.alpha": alpha}}
        write_run(
            tmp_path / "runs" / str(alpha), "prunefl", 0, f"data.alpha={alpha}", rounds=20, variant=variant
        )
    written = write_report([tmp_path / "runs"], tmp_path / "out", figures=())
    assert 'id="panel-sweep-data-alpha-accuracy"' in written.page.read_text()
    assert [row["Method"] for row in table(written, "summary")] == [
        f"PruneFL, alpha {a}" for a in (0.1, 1, 10)
    ]
    # no value of the sweep may speak for the method at the head of the page
    assert "final accuracy of" not in written.page.read_text()


def test_the_page_begins_with_prunefl_beside_conventional_fl(written: Written) -> None:
    text = written.page.read_text()
    assert "<span>final accuracy of PruneFL</span><small>Conventional FL: " in text
