"""The report says what the records say, and says what it could not read."""

import base64
import csv
import hashlib
import html
import json
import re
from pathlib import Path
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunefl.report import write_report
from prunefl.report.costs import percent_off, predicted_and_charged, prediction_figure
from prunefl.report.curves import accuracy_figures, size_figure
from prunefl.report.draw import draw
from prunefl.report.figures import thinned
from prunefl.report.headline import rankings_of, verdict_of
from prunefl.report.palette import colours
from prunefl.report.runs import find_runs, read_run
from prunefl.report.special import sweep_figures
from prunefl.report.study import study
from prunefl.report.tables import split_table, summary_table, target_tables
from prunefl.report.write import Written
from prunefl.runs.api import train
from synthetic import LAYERS, TOTAL, write_run
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


def accuracies(folder: Path) -> list[float]:
    return [100 * r["accuracy"] for r in rows(folder) if r["kind"] == "round" and r.get("accuracy")]


def test_final_accuracy_is_the_delivered_models_and_an_average_is_called_one(
    written: Written, comparison: Path
) -> None:
    ends = [accuracies(comparison / "prunefl" / f"seed-{seed}") for seed in (0, 1)]
    found = next(row for row in table(written, "summary") if row["Method"] == "PruneFL")
    for name, values in (
        ("Final accuracy (%)", [end[-1] for end in ends]),
        ("Average over the last tenth of evaluations (%)", [end[-1] for end in ends]),
    ):
        assert float(found[name]) == pytest.approx(sum(values) / 2, abs=0.006)
        # two seeds: their range, never an interval
        assert float(found[f"{name}, lowest"]) == pytest.approx(min(values), abs=0.006)
        assert float(found[f"{name}, highest"]) == pytest.approx(max(values), abs=0.006)
        assert f"{name} ±" not in found


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


def test_the_interval_is_told_whole_where_its_band_is_cut(tmp_path: Path) -> None:
    for seed, reached in enumerate((0.1, 0.9, 0.9)):
        write_run(tmp_path / str(seed), "snip", seed, rounds=40, shape=(reached, 5, (1, 1, 1, 1)))
    told = study(find_runs([tmp_path])[0])
    curve = accuracy_figures(told, told.plain)[1].curves[0]
    last = [accuracies(tmp_path / str(seed))[-1] for seed in range(3)]
    expected = 4.303 * stdev(last) / 3**0.5
    assert expected > 60
    assert curve.half[-1] == pytest.approx(expected)
    assert (curve.low[-1], curve.high[-1]) == (0, 100)


def test_two_seeds_are_two_curves_and_three_are_a_band(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / "three" / str(seed), "snip", seed, rounds=40)
        if seed:
            write_run(tmp_path / "two" / str(seed), "snip", seed, rounds=40)
    two, three = (study(find_runs([tmp_path / name])[0]) for name in ("two", "three"))
    pair = accuracy_figures(two, two.plain)[1].curves
    assert [(curve.part, list(curve.y)) for curve in pair] == [
        (f"seed {seed}", accuracies(tmp_path / "two" / str(seed))) for seed in (1, 2)
    ]
    assert not any(curve.low for curve in pair)
    (mean,) = accuracy_figures(three, three.plain)[1].curves
    assert mean.part == ""
    assert len(mean.low) == len(mean.y) == 4


def test_a_column_in_which_nothing_is_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "snip", 0, rounds=20)
    shown = split_table(study(find_runs([tmp_path])[0]))
    assert shown.columns[1:3] == ("Compute (s)", "Upload (s)")
    write_run(tmp_path / "b", "prunefl", 0, rounds=20)
    both = split_table(study(find_runs([tmp_path])[0]))
    assert both.columns[1] == "Initial pruning (s)"
    assert [row[1] for row in both.rows] == ["420", "–"]


def test_one_quantity_has_one_unit_on_the_whole_page(written: Written) -> None:
    text = written.page.read_text()
    units = set(re.findall(r"Simulated time \((\w+)\)", text)) | set(
        re.findall(r"Time to \d+ % \((\w+)\)", text)
    )
    # of runs, and of single rounds
    assert units == {"min", "s"}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=600), st.integers(6, 60))
def test_thinning_keeps_ends_and_extremes(values: list[float], most: int) -> None:
    places = thinned(values, most)
    kept = [values[place] for place in places]
    assert places == sorted(set(places))
    assert len(places) <= most
    assert (places[0], places[-1]) == (0, len(values) - 1)
    assert (min(kept), max(kept)) == (min(values), max(values))


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


def test_the_policy_of_the_page_allows_its_own_style_and_script_only(written: Written) -> None:
    text = written.page.read_text()
    for kind, allowed in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{allowed} 'sha256-{digest}'" in html.unescape(text)
    assert "unsafe-inline" not in text


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
    assert 'class="verdict"' not in written.page.read_text()
    told = study(find_runs([tmp_path / "runs"])[0])
    assert all(figure.log and figure.marks for figure in sweep_figures(told))


def test_the_page_begins_with_who_won_by_how_much(comparison: Path) -> None:
    told = study(find_runs([comparison])[0])
    cost = {
        method: [
            next(r for r in rows(comparison / method / f"seed-{seed}") if r.get("accuracy", 0) >= 0.5)[
                "total"
            ]
            for seed in (0, 1)
        ]
        for method in ("snip", "conventional")
    }
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(cost["snip"], cost["conventional"], strict=True)]
    mean = (ratios[0] * ratios[1]) ** 0.5
    words = verdict_of(told, [0.5])
    assert words.startswith("SNIP reaches 50 % accuracy first, ")
    assert f"{mean:.1f} times ({min(ratios):.1f} to {max(ratios):.1f}) sooner than Conventional FL" in words
    time = rankings_of(told, [0.5])[1]
    means = {row.label: float(row.value.split(" ")[0]) for row in time.rows}
    assert means["SNIP"] == pytest.approx(sum(c["seconds"] for c in cost["snip"]) / 120, abs=0.06)
    assert list(means.values()) == sorted(means.values())
    assert [row.label for row in time.rows if row.best] == ["SNIP"]


def test_the_report_says_where_its_numbers_come_from(comparison: Path, tmp_path: Path) -> None:
    text = write_report([comparison / "prunefl", comparison / "snip"], tmp_path, figures=()).page.read_text()
    for words in ("prunefl 0.1.0", "2026-11-16 08:00:00 UTC", "a small machine, 2 cores", "0, 1"):
        assert f"<dd>{words}" in text
    assert f"prunefl run {comparison / 'prunefl' / 'seed-0'}/config.toml --out" in text
    assert "Settings of SNIP alone" in text


def test_layers_are_named_with_type_and_shape(written: Written) -> None:
    names = [row["Layer"] for row in table(written, "layers")]
    assert names[:2] == ["0, Conv2d 32×1×5×5", "3, Conv2d 64×32×5×5"]
    assert names[3] == "9, Linear 62×2048"
