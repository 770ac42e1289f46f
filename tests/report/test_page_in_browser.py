"""The page in a real browser: quiet, offline, and its controls work."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import browser
from browser import Page, opened, require_browser
from layout import find_faults
from prunefl.report import write_report
from prunefl.report.write import Written
from synthetic import write_run

CHART = "#panel-accuracy-time svg[role=img]"


@pytest.fixture(scope="module")
def page(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    require_browser()
    with opened(written.page.as_uri(), tmp_path_factory.mktemp("profile")) as page:
        yield page


def test_a_silent_browser_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "PATIENCE_SECONDS", 0.05)
    (heard, _said), (_read, written_to) = os.pipe(), os.pipe()
    with pytest.raises(AssertionError, match="said nothing"):
        Page(written_to, heard).call("Browser.getVersion")


def curves(page: Page, figure: str = "accuracy-time") -> int:
    return page.run(f"document.querySelectorAll('#panel-{figure} path.curve').length")


def test_every_figure_is_drawn(page: Page) -> None:
    assert page.run("document.documentElement.dataset.ready") == "yes"
    assert page.run("document.querySelectorAll('.chart').length") == 20
    assert page.run("[...document.querySelectorAll('.chart')].every((c) => c.querySelector('svg'))")
    drawn = page.run("document.querySelector('main').innerHTML.replace(/data:image[^\"]*/g, '')")
    assert not re.search("NaN|undefined|Infinity", drawn)


def test_a_curve_can_be_switched_off_and_on_in_every_figure(page: Page) -> None:
    before = curves(page), curves(page, "size")
    chip = "#panel-accuracy-time .chip[data-variant=v0]"
    page.click(chip)
    # one for each of its two seeds
    assert (curves(page), curves(page, "size")) == (before[0] - 2, before[1] - 2)
    assert page.run(f"document.querySelector('{chip}').getAttribute('aria-pressed')") == "false"
    page.click(chip)
    assert (curves(page), curves(page, "size")) == before


def test_all_curves_can_be_hidden_and_shown(page: Page) -> None:
    before = curves(page)
    page.click("#panel-accuracy-time [data-all=hide]")
    assert curves(page) == 0
    page.click("#panel-accuracy-time [data-all=show]")
    assert curves(page) == before


def test_the_axis_can_be_changed(page: Page) -> None:
    page.click("#tab-accuracy-bytes")
    assert page.run("getComputedStyle(document.querySelector('#panel-accuracy-bytes')).display") == "block"
    assert page.run("getComputedStyle(document.querySelector('#panel-accuracy-time')).display") == "none"
    page.press("ArrowLeft")
    assert page.run("document.activeElement.id") == "tab-accuracy-round"
    page.click("#tab-accuracy-time")


def test_the_axis_can_be_logarithmic(page: Page) -> None:
    path = "document.querySelector('#panel-accuracy-time path.curve').getAttribute('d')"
    before = page.run(path)
    page.click("#panel-accuracy-time [data-switch=log]")
    assert page.run(path) != before
    page.click("#panel-accuracy-time [data-switch=log]")
    assert page.run(path) == before


def test_the_accuracy_axis_fits_its_curves_or_has_all_of_it(page: Page) -> None:
    labels = "[...document.querySelectorAll('#panel-accuracy-time text[text-anchor=end]')].map((t) => t.textContent)"
    assert "100" not in page.run(labels)
    page.click("#panel-accuracy-time [data-switch=whole]")
    assert {"0", "100"} <= set(page.run(labels))
    page.click("#panel-accuracy-time [data-switch=whole]")


def test_values_can_be_read_with_the_pointer(page: Page) -> None:
    page.hover(CHART, 0.3)
    text = page.run("document.getElementById('tip').innerText")
    assert "PruneFL" in text
    assert "Simulated time" in text
    assert page.run("document.querySelectorAll('#panel-accuracy-time .dot').length") > 3
    page.hover("h1")
    assert page.run("document.getElementById('tip').hidden")


def test_a_reading_snaps_to_evaluated_points(page: Page, comparison: Path) -> None:
    evaluated = {
        round(100 * record["accuracy"], 4)
        for file in comparison.rglob("records.jsonl")
        for record in map(json.loads, file.read_text().splitlines())
        if record["kind"] == "round" and "accuracy" in record
    }
    for share in (0.21, 0.437, 0.6):
        page.hover(CHART, share)
        text = page.run("document.getElementById('reading').textContent")
        values = [float(value) for value in re.findall(r"seed \d (\d+\.\d+)", text)]
        assert len(values) > 2
        # the page shows two decimals
        assert all(any(abs(value - true) < 0.0051 for true in evaluated) for value in values)
    page.hover("h1")


def test_a_curve_is_not_read_left_of_its_first_point(page: Page) -> None:
    # conventional FL is evaluated first after 8 of 80 minutes
    page.hover(CHART, 0.06)
    assert "Conventional FL" not in page.run("document.getElementById('tip').innerText")
    page.hover(CHART, 0.3)
    assert "Conventional FL" in page.run("document.getElementById('tip').innerText")


def test_values_can_be_read_with_the_keyboard(page: Page) -> None:
    page.run(f"document.querySelector('{CHART}').focus()")
    page.press("Home")
    first = page.run("document.getElementById('reading').textContent")
    page.press("ArrowRight")
    second = page.run("document.getElementById('reading').textContent")
    assert "SynFlow" in second
    assert first != second
    page.press("Escape")
    assert page.run("document.getElementById('tip').hidden")


def test_bars_and_maps_can_be_read(page: Page) -> None:
    page.hover("#panel-cost-run svg[role=img]")
    assert "upload" in page.run("document.getElementById('tip').innerText")
    page.hover("#panel-layers-prunefl svg[role=img]", 0.7)
    assert "%" in page.run("document.getElementById('tip').innerText")


def test_every_part_of_the_time_has_a_colour_of_its_own(page: Page) -> None:
    bars = "[...document.querySelectorAll('#panel-cost-run rect')].map((bar) => getComputedStyle(bar).fill)"
    # initial pruning and four parts of a round
    assert len(set(page.run(bars)) - {"none", "rgb(0, 0, 0)"}) == 5


def test_the_theme_can_be_changed(page: Page) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.run(colour)
    page.click("#theme")
    assert page.run(colour) != before
    page.click("#theme")
    assert page.run(colour) == before


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_overlaps_overflows_or_is_faint(page: Page, width: int, dark: bool) -> None:
    page.resize(width, dark=dark)
    assert find_faults(page, least_texts=200) == []
    for tab in ("accuracy-round", "accuracy-bytes", "cost-round", "layers-snip", "limited-accuracy-time"):
        page.click(f"#tab-{tab}")
    assert find_faults(page, least_texts=200) == []
    ticks = "document.querySelectorAll('#panel-accuracy-bytes text[text-anchor={}]:not(.name)').length"
    assert page.run(ticks.format("middle")) >= 3
    assert page.run(ticks.format("end")) >= 4
    page.click("#tab-accuracy-time")
    page.resize(1300)


def test_a_table_that_is_too_wide_says_so(page: Page) -> None:
    cue = "getComputedStyle(document.querySelector('#layers .wide .hint')).display"
    page.resize(400)
    assert page.run(cue) == "block"
    page.run("document.querySelector('#layers .scroll').scrollLeft = 1e6")
    page.wait(f"{cue} === 'none'")
    page.resize(1300)


def test_a_page_with_faults_is_found_out(tmp_path: Path) -> None:
    require_browser()
    (tmp_path / "bad.html").write_text(
        "<body><p style='color:#999'>faint</p><div style='width:3000px'>wide</div>"
        "<p style='position:absolute;top:100px;margin:0'>under this</p>"
        "<b style='position:absolute;top:104px'>over that</b>"
        "<svg width='50' height='20'><text x='20' y='15'>much too long</text></svg></body>"
    )
    with opened((tmp_path / "bad.html").as_uri(), tmp_path / "profile") as page:
        faults = " ".join(find_faults(page))
    for words in (
        "contrast 2.8",
        "the page is 30",
        "under this | over that",
        "outside its chart",
        "only 5 pieces",
    ):
        assert words in faults


def test_a_report_of_hostile_names_is_safe_and_whole(tmp_path: Path) -> None:
    require_browser()
    labels = [
        "<script>document.title='owned'</script>",
        "\"'><img src=x onerror=\"document.title='owned'\">",
        "x" * 300,
        "\u202eright to left \u05e9\u05dc\u05d5\u05dd",
    ]
    for number, label in enumerate(labels):
        given = {"kind": "method", "label": label, "settings": {"data.alpha": number + 0.5}}
        write_run(
            tmp_path / "runs" / str(number),
            "prunefl",
            0,
            f"data.alpha={number + 0.5}",
            rounds=30,
            variant=given,
        )
    written = write_report(
        [tmp_path / "runs"], tmp_path / "out", title="</title><script>1</script>", figures=()
    )
    with opened(written.page.as_uri(), tmp_path / "profile") as page:
        assert page.run("document.documentElement.dataset.ready") == "yes"
        assert page.run("document.title") == "</title><script>1</script> – PruneFL report"
        assert page.run("document.querySelectorAll('img').length") == 0
        rows = page.run("[...document.querySelectorAll('#accuracy tbody th')].map((th) => th.textContent)")
        assert sorted(rows) == sorted(labels)
        for width in (1400, 400):
            page.resize(width)
            assert find_faults(page) == []
        assert not [e for e in page.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]


def test_printing_shows_every_panel(page: Page) -> None:
    page.call("Emulation.setEmulatedMedia", media="print")
    hidden = "[...document.querySelectorAll('.panel')].filter((p) => getComputedStyle(p).display === 'none').length"
    assert page.run(hidden) == 0
    page.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("medium", ["screen", "phone", "paper"])
def test_long_names_and_large_totals_stay_inside_their_chart(
    tmp_path_factory: pytest.TempPathFactory, medium: str
) -> None:
    require_browser()
    folder = tmp_path_factory.mktemp("long")
    for rate in (0.05, 0.25):
        given = {"data.alpha": 0.1, "training.learning_rate": rate, "pruning.half_life": 123456}
        settings = [f"{key}={value}" for key, value in given.items()]
        made_for = {"kind": "sweep", "settings": given}
        write_run(folder / str(rate), "prunefl", 0, *settings, rounds=30, variant=made_for)
    written = write_report([folder], folder / "report", figures=())
    with opened(written.page.as_uri(), tmp_path_factory.mktemp("profile")) as page:
        if medium == "phone":
            page.call(
                "Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True
            )
            page.run("new Promise((done) => setTimeout(done, 300))")
        elif medium == "paper":
            page.call("Emulation.setEmulatedMedia", media="print")
            page.run("dispatchEvent(new Event('beforeprint'))")
        if medium != "paper":
            page.click("#tab-cost-round")
        outside = """[...document.querySelectorAll('#panel-cost-round text')].filter((t) => {
            const box = t.getBBox(), width = t.ownerSVGElement.viewBox.baseVal.width;
            return box.x < 0 || box.x + box.width > width; }).map((t) => t.textContent)"""
        assert page.run("document.querySelectorAll('#panel-cost-round text').length") > 5
        assert page.run(outside) == []


def test_nothing_was_complained_of_and_nothing_was_fetched(page: Page) -> None:
    """Last on purpose: it looks at all that the tests above have caused."""
    complaints = [
        event
        for event in page.events
        if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    ]
    assert complaints == []
    asked = [
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 1
