"""What the report's words, marks and colours say of a comparison."""

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
from prunefl.report.curves import accuracy_figures
from prunefl.report.figures import thinned
from prunefl.report.headline import rankings_of, verdict_of
from prunefl.report.palette import colours
from prunefl.report.runs import find_runs
from prunefl.report.special import sweep_figures
from prunefl.report.study import study
from prunefl.report.tables import split_table, summary_table
from prunefl.report.write import Written
from synthetic import accuracies, rows, write_run


def table(written: Written, name: str) -> list[dict[str, str]]:
    with (written.page.parent / "tables" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


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
    ends = {
        method: [accuracies(comparison / method / f"seed-{seed}")[-1] for seed in (0, 1)] for method in cost
    }
    assert f"and ends at {sum(ends['snip']) / 2:.4g} % accuracy with " in words
    assert words.endswith(
        f" of the weights (Conventional FL: {sum(ends['conventional']) / 2:.4g} % accuracy)."
    )
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
