"""The page in a real browser: quiet, offline, and its controls work."""

import os
import re
from collections.abc import Iterator

import browser
import pytest
from browser import Page, chromium, opened
from synthetic import write_run

from prunefl.report import write_report
from prunefl.report.write import Written

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium is installed")
CHART = "#panel-accuracy-time svg[role=img]"


@pytest.fixture(scope="module")
def page(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
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
    assert (curves(page), curves(page, "size")) == (before[0] - 1, before[1] - 1)
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
    page.click("#panel-accuracy-time .switch")
    assert page.run(path) != before
    page.click("#panel-accuracy-time .switch")
    assert page.run(path) == before


def test_values_can_be_read_with_the_pointer(page: Page) -> None:
    page.hover(CHART, 0.3)
    text = page.run("document.getElementById('tip').innerText")
    assert "PruneFL" in text
    assert "Simulated time" in text
    assert page.run("document.querySelectorAll('#panel-accuracy-time .dot').length") > 3
    page.hover("h1")
    assert page.run("document.getElementById('tip').hidden")


def test_a_reading_is_where_the_curve_is_drawn(page: Page) -> None:
    page.hover(CHART, 0.437)
    across = page.run(
        "[...document.querySelectorAll('#panel-accuracy-time .dot')].map((d) => d.cx.baseVal.value)"
    )
    assert len(across) > 1
    assert max(across) - min(across) < 1e-6
    page.hover("h1")


def test_a_curve_is_not_read_left_of_its_first_point(page: Page) -> None:
    # conventional FL is evaluated first after 8 of 80 minutes
    page.hover(CHART, 0.1)
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


def test_the_page_does_not_overflow_a_phone(page: Page) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.run("document.documentElement.scrollWidth") <= 390
    page.call("Emulation.clearDeviceMetricsOverride")
    page.run("new Promise((done) => setTimeout(done, 300))")


def test_printing_shows_every_panel(page: Page) -> None:
    page.call("Emulation.setEmulatedMedia", media="print")
    hidden = "[...document.querySelectorAll('.panel')].filter((p) => getComputedStyle(p).display === 'none').length"
    assert page.run(hidden) == 0
    page.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("medium", ["screen", "phone", "paper"])
def test_long_names_and_large_totals_stay_inside_their_chart(
    tmp_path_factory: pytest.TempPathFactory, medium: str
) -> None:
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
