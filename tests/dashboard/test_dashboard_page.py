"""The dashboard in a real browser: it follows a run, survives what happens to it, and can be read on any screen."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import served

from browser import Page, opened, require_browser
from layout import find_faults
from prunefl.dashboard.serve import open_socket
from prunefl.engines.flower.membership import Member
from prunefl.engines.flower.status import Status
from prunefl.system.locks import hold
from synthetic import write_run

ROUND = "document.getElementById('place').textContent"
HOSTILE = [
    "<script>document.title='owned'</script>",
    "\"'><img src=x onerror=alert(1)>",
    "y" * 300,
    "\u202eשלום",
]


@contextmanager
def page_at(url: str, folder: Path) -> Iterator[Page]:
    require_browser()
    with opened(url, folder / "profile") as page:
        page.wait("document.documentElement.dataset.ready === 'yes'")
        yield page


def complaints(page: Page) -> list[dict]:
    kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    return [event for event in page.events if event["method"] in kinds]


def lines_of(folder: Path) -> list[str]:
    return (folder / "records.jsonl").read_text().splitlines(keepends=True)


def test_a_page_follows_a_run_that_grows_is_cut_back_and_ends(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "a", "prunefl", 0, rounds=120)
    lines = lines_of(folder)
    (folder / "records.jsonl").write_text("".join(lines[:32]))
    curve = "document.querySelector('#curves-chart path.curve').getAttribute('d')"
    with served([tmp_path / "runs"]) as url, page_at(url, tmp_path) as page:
        assert page.run(ROUND) == "Round 30 of 120"
        assert page.run("document.getElementById('state').textContent") == "stopped"
        before = page.run(curve)
        with hold(folder):
            (folder / "records.jsonl").write_text("".join(lines[:82]))
            page.wait(f"{ROUND} === 'Round 80 of 120'")
            assert page.run("document.getElementById('state').textContent") == "training"
            assert page.run(curve) != before
            words = page.run("document.getElementById('change-words').textContent")
            assert words.startswith("After round 50: ")
            # killed and resumed from its checkpoint
            (folder / "records.jsonl").write_text("".join(lines[:42]))
            page.wait(f"{ROUND} === 'Round 40 of 120'")
            (folder / "records.jsonl").write_text("".join(lines))
            page.wait(f"{ROUND} === 'Round 120 of 120'")
        page.wait("document.getElementById('state').textContent === 'finished'")
        last = json.loads(lines[-2])
        assert f"{100 * last['accuracy']:.1f} %" in page.run("document.getElementById('tiles').innerText")
        page.click("[data-axis='3']")
        assert "Bytes exchanged (GB)" in page.run("document.getElementById('curves-chart').textContent")
        page.click("[data-measure=loss]")
        assert page.run("document.querySelector('#curves-chart .name').textContent") == "Loss"
        assert complaints(page) == []


def test_what_is_spent_of_a_privacy_budget_has_a_tile_and_is_there_only_where_noise_is(
    tmp_path: Path,
) -> None:
    tiles = "document.getElementById('tiles').innerText"
    folder = write_run(tmp_path / "runs" / "a", "prunefl", 0, rounds=20)
    told = (folder / "config.toml").read_text().replace("\nepsilon = 0.0", "\nepsilon = 8.0")
    (folder / "config.toml").write_text(told)
    with served([tmp_path / "runs"]) as url, page_at(url, tmp_path) as page:
        assert "Privacy" not in page.run(tiles)
        *before, last, end = lines_of(folder)
        spent = {**json.loads(last), "privacy": {"epsilon": 3.25, "delta": 0.001, "clip": 1.0}}
        (folder / "records.jsonl").write_text("".join(before))
        page.wait(f"{ROUND} === 'Round 19 of 20'")
        (folder / "records.jsonl").write_text("".join([*before, json.dumps(spent) + "\n", end]))
        page.wait(f"{tiles}.includes('ε 3.25')")
        assert "of 8, at δ 0.001" in page.run(tiles)
        assert complaints(page) == []


def test_the_page_goes_on_when_the_dashboard_itself_was_gone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "a", "snip", 0, rounds=60)
    lines = lines_of(folder)
    (folder / "records.jsonl").write_text("".join(lines[:21]))
    with open_socket("127.0.0.1", 0) as found:
        port = found.getsockname()[1]
    with served([tmp_path / "runs"], port) as url:
        page_open = page_at(url, tmp_path)
        page = page_open.__enter__()
    try:
        page.wait("document.getElementById('link').dataset.state === 'lost'")
        (folder / "records.jsonl").write_text("".join(lines[:41]))
        with served([tmp_path / "runs"], port):
            page.wait(f"{ROUND} === 'Round 40 of 60'")
            page.wait("document.getElementById('link').dataset.state === 'live'")
    finally:
        page_open.__exit__(None, None, None)


def federation(folder: Path, count: int, **changes: object) -> None:
    states = [{"message": "m"}, {}, {"online": False}, {"overdue": True}, {"online": False, "barred": "x"}]
    members = {
        n: Member(
            n, n + 1, **{"online": True, "last_seen": time.time() - 3600, "num_samples": 9, **states[n % 5]}
        )
        for n in range(count)
    }
    for member in members.values():
        for key, value in changes.items():
            setattr(member, key, value)
    Status(folder, 60, members, "training").write(now=True)


def test_every_lane_says_how_its_client_is_and_a_killed_one_turns(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "a", "snip", 0, rounds=20, end=False)
    state = "[...document.querySelectorAll('.lanes .lane')].map((lane) => lane.dataset.state)"
    with hold(folder), served([tmp_path / "runs"]) as url:
        federation(folder, 10)
        with page_at(url, tmp_path) as page:
            expected = ["training", "waiting", "away", "late", "refused"]
            page.wait(
                f"JSON.stringify({state}) === {json.dumps(json.dumps(expected * 2, separators=(',', ':')))}"
            )
            assert "1:00 h ago" in page.run("document.querySelector('.lanes .lane').textContent")
            page.run("document.getElementById('order').value = 'trouble'")
            page.run("document.getElementById('order').dispatchEvent(new Event('change'))")
            assert page.run(state)[:2] == ["refused", "refused"]
            heard = {str(n + 1): [time.time() - (9 if n == 0 else 0), 3.0] for n in range(10)}
            (folder / "heard.json").write_text(json.dumps(heard))
            federation(folder, 10)
            page.wait("document.querySelector('.lane[data-client=\"0\"]').dataset.state === 'silent'")
            assert "1 silent" in page.run("document.getElementById('clients-words').textContent")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Runs side by side, one of them a federation, with names of all kinds."""
    folder = tmp_path_factory.mktemp("hostile")
    for seed, label in enumerate(HOSTILE):
        made = write_run(
            folder / "runs" / f"{seed}", "prunefl", seed, rounds=60, end=False, variant={"label": label}
        )
        federation(made, 10, refusal=f"{label} came too late")
    with hold(folder / "runs" / "0"), served([folder / "runs"]) as url, page_at(url, folder) as page:
        yield page


def test_hostile_names_are_text(hostile: Page) -> None:
    names = hostile.run("[...document.querySelectorAll('#runs tbody button')].map((b) => b.textContent)")
    assert names == [f"{label}, seed {seed}" for seed, label in enumerate(HOSTILE)]
    assert hostile.run("document.querySelectorAll('img').length") == 0
    assert "owned" not in hostile.run("document.title").replace(HOSTILE[0], "")
    assert complaints(hostile) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_overlaps_overflows_or_is_faint(hostile: Page, width: int, dark: bool) -> None:
    hostile.resize(width, dark=dark)
    assert find_faults(hostile, least_texts=60) == []


def test_only_lanes_in_sight_are_drawn_of_a_thousand_clients(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "a", "snip", 0, rounds=20, end=False)
    text = (folder / "records.jsonl").read_text().replace('"clients": 10,', '"clients": 1000,')
    (folder / "records.jsonl").write_text(text)
    with hold(folder), served([tmp_path / "runs"]) as url:
        federation(folder, 1000)
        with page_at(url, tmp_path) as page:
            page.wait("document.getElementById('clients-words').textContent.startsWith('1,000 in all: ')")
            assert page.run("document.querySelectorAll('.lanes .lane').length") < 40
            page.run("document.getElementById('lanes').scrollTop = 1e6")
            page.wait("document.querySelector('.lane[data-client=\"999\"]') !== null")


def test_runs_of_one_name_are_told_apart_and_of_other_tasks_not_drawn_together(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_run(tmp_path / "runs" / name, "snip", 0, rounds=20)
    other = tmp_path / "runs" / "c" / "records.jsonl"
    text = other.read_text().replace('"kind": "run"', '"kind": "run", "metric": "perplexity"', 1)
    other.write_text(text.replace('"accuracy"', '"score"'))
    curves = "[...document.querySelectorAll('#curves-chart path.curve')].length"
    with served([tmp_path / "runs"]) as url, page_at(url, tmp_path) as page:
        names = page.run("[...document.querySelectorAll('#runs tbody button')].map((b) => b.textContent)")
        assert names == [f"SNIP, seed 0 ({name})" for name in "abc"]
        assert page.run("document.getElementById('metric').textContent") == "Metric"
        assert page.run(curves) == 2
        page.click("#runs tbody tr:nth-child(3) button")
        page.wait("document.getElementById('curves-title').textContent === 'Perplexity'")
        assert page.run(curves) == 1
        assert complaints(page) == []


@pytest.mark.parametrize("damage", ["nonsense", "empty", "newer"])
def test_a_page_is_never_blank(tmp_path: Path, damage: str) -> None:
    folder = write_run(tmp_path / "runs" / "a", "snip", 0, rounds=20)
    text = (folder / "records.jsonl").read_text()
    (folder / "records.jsonl").write_text(
        {"nonsense": "x\n" * 9, "empty": "", "newer": text.replace('"0.1.0"', '"9.0"')}[damage]
    )
    words = {"nonsense": "line 1, 2, 3", "empty": "no readable first line", "newer": "written by prunefl 9.0"}
    with served([tmp_path / "runs"]) as url, page_at(url, tmp_path) as page:
        page.wait("!document.getElementById('notes').hidden")
        assert words[damage] in page.run("document.getElementById('notes').textContent")
        assert complaints(page) == []
