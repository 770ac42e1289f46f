"""What the page is told of runs is what their records and status files say."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from prunefl.dashboard import track
from prunefl.dashboard.hub import Hub, Reader, refuse_empty
from prunefl.dashboard.lanes import state_of
from prunefl.dashboard.run_view import RunView
from prunefl.engines.flower.membership import Member
from prunefl.engines.flower.status import Status
from prunefl.system.locks import hold
from synthetic import LAYERS, TOTAL, write_run


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def view_of(folder: Path) -> RunView:
    view = RunView(folder, "a", "r0")
    view.look()
    return view


def test_the_summary_is_the_last_record(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "prunefl", 3, rounds=60)
    last, told = records(folder)[-2], view_of(folder).summary()
    assert (told["label"], told["title"], told["seed"]) == ("PruneFL", "Conv-2 on FEMNIST", 3)
    assert (told["round"], told["rounds"], told["state"], told["left"]) == (60, 60, "finished", None)
    assert (told["accuracy"], told["accuracy_round"]) == (last["accuracy"], 60)
    assert told["bytes_up"] == last["total"]["bytes_up"]
    assert told["notes"] == []


def test_who_is_at_work_is_seen_and_the_time_left_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=60, end=False)
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:41]))
    assert view_of(folder).summary()["state"] == "stopped"
    with hold(folder):
        told = view_of(folder).summary()
    assert told["state"] == "training"
    # rounds of 0.2 s, 20 of them to go
    assert told["left"] == pytest.approx(4.0)
    with hold(folder):
        (folder / "records.jsonl").write_text(lines[0])
        assert view_of(folder).summary()["state"] == "starting"


def test_the_last_reconfiguration_is_told_layer_by_layer(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "prunefl", 0, rounds=120)
    view = view_of(folder)
    rounds = [r for r in records(folder) if r["kind"] == "round"]
    live = {r["round"]: r["live"] for r in rounds if "live" in r}
    change = view.detail()["change"]
    assert change["round"] == 100
    assert change["layers"] == [[live[50][n], live[100][n], size] for n, size in LAYERS.items()]
    assert change["seconds"] == [rounds[98]["predicted_seconds"], rounds[99]["predicted_seconds"]]
    assert view.detail()["layers"][0] == {"name": "0, Conv2d 32×1×5×5", "size": 800}


def test_a_prediction_stands_beside_the_round_that_it_was_for(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "prunefl", 0, rounds=60)
    rounds = [r for r in records(folder) if r["kind"] == "round"]
    predicted = {point[0]: point[-1] for point in view_of(folder).series["predicted"].points()}
    assert predicted == {r["round"] + 1: r["predicted_seconds"] for r in rounds[:-1]}


def federation(folder: Path, *members: Member, phase: str = "training") -> None:
    Status(folder, 60, {member.client: member for member in members}, phase).write(now=True)


def test_lanes_are_what_the_status_says_beside_the_records(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20, end=False)
    lines = records(folder)
    lines[-1]["refused"] = {"4": "no answer in time"}
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    now = time.time()
    federation(
        folder,
        Member(0, 5, online=True, num_samples=60, message="m", bytes_up=7, bytes_down=9, last_seen=now),
        Member(1, 6, online=True, num_samples=50, accuracy=0.5),
        Member(2, 7, online=False),
        Member(3, 0, barred="wrong shape"),
        Member(4, 8, online=True, overdue=True, refusals=3, refusal="late"),
        Member(5, 9, online=True, barred="its changes pull against the others'"),
    )
    view = view_of(folder)
    rows = view.lanes.rows(view.status, is_live=True)
    assert [row[1] for row in rows[:6]] == ["training", "waiting", "away", "refused", "late", "left out"]
    assert rows[5][2] == "its changes pull against the others'"
    assert rows[0][3:7] == [now, 7, 9, 60]
    assert (rows[1][7], rows[3][2], rows[4][2], rows[4][9]) == (0.5, "wrong shape", "late", 3)
    assert (rows[4][8], rows[0][8]) == (19, 20)
    assert view.lanes.history()[-1] == (20, "ttttrttttt")
    assert [row[1] for row in view.lanes.rows(view.status, is_live=False)] == ["–"] * 10


def test_a_node_that_asks_for_no_work_any_more_is_silent_before_flower_misses_it(tmp_path: Path) -> None:
    now = time.time()
    (tmp_path / "heard.json").write_text(
        json.dumps({"5": [now - 6, 3.0], "6": [now - 1, 3.0], "7": [now - 6, 5.0]})
    )
    federation(tmp_path, *(Member(n, 5 + n, online=True, message="m") for n in range(3)))
    status = json.loads((tmp_path / "status.json").read_text())
    # the last has been silent for as long before and came back
    states = [state_of(node, status["updated"]) for node in status["nodes"]]
    assert states == ["silent", "training", "training"]
    # a status that is old says nothing about how long nodes have been silent
    assert state_of(status["nodes"][0], status["updated"] - 3) == "training"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"nodes": 3}', '{"nodes": [1, {"client": "x"}]}', '{"updated": null}']
)
def test_a_damaged_status_is_no_reason_to_show_nothing(tmp_path: Path, text: str) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20)
    (folder / "status.json").write_text(text)
    news = Reader(hub_of(tmp_path)).news()
    assert news["runs"][0]["round"] == 20
    assert len(news["lanes"]) == 10


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "snip", 0, rounds=20)
    text = (folder / "records.jsonl").read_text()
    (folder / "records.jsonl").write_text(text.replace('"version": "0.1.0"', '"version": "7.3.0"') + "x\n")
    notes = view_of(folder).summary()["notes"]
    assert any("line 23 is damaged" in note for note in notes)
    assert any("written by prunefl 7.3.0" in note for note in notes)
    (folder / "config.toml").write_text("[run\n")
    assert any("not valid TOML" in note for note in view_of(folder).summary()["notes"])
    (folder / "records.jsonl").write_text("nonsense\n")
    assert any("no readable first line" in note for note in view_of(folder).summary()["notes"])


def hub_of(*folders: Path) -> Hub:
    hub = Hub(folders)
    hub.look()
    return hub


class Shown:
    """What a page holds that takes news as the script does."""

    def __init__(self) -> None:
        self.curves: dict[tuple[str, str], list[Any]] = {}
        self.lanes: dict[int, Any] = {}
        self.history: list[Any] = []

    def take(self, news: dict[str, Any]) -> None:
        for piece in [*news["curves"], *news.get("layers", ())]:
            key = piece["run"], piece["name"]
            self.curves[key] = self.curves.get(key, [])[: piece["from"]] + piece["stretches"]
        self.history = [] if news.get("anew") else self.history
        self.lanes |= {row[0]: row for row in news.get("lanes", ())}
        self.history = [*self.history, *news.get("history", ())][-60:]


def test_a_page_that_was_there_all_along_shows_what_a_new_one_shows(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(track, "MOST", 10)
    whole = write_run(tmp_path / "from", "prunefl", 0, rounds=150) / "records.jsonl"
    lines = whole.read_text().splitlines(keepends=True)
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text((whole.parent / "config.toml").read_text())
    (folder / "records.jsonl").write_text(lines[0])
    hub, page = hub_of(tmp_path / "runs"), Shown()
    reader = Reader(hub)
    # forward, then back as after a crash, then to the end
    for count in (1, 2, 20, 21, 90, 70, 110, len(lines)):
        (folder / "records.jsonl").write_text("".join(lines[:count]))
        hub.look()
        page.take(reader.news())
    new = Shown()
    new.take(Reader(hub).news())
    assert {key: curve for key, curve in page.curves.items() if curve} == new.curves
    assert page.lanes == new.lanes
    assert page.history == new.history
    assert len(new.history) == 60


def test_nothing_new_is_nothing_sent(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "prunefl", 0, rounds=30)
    hub = hub_of(tmp_path)
    reader = Reader(hub)
    first = reader.news()
    assert first["curves"]
    assert not hub.look()
    again = reader.news()
    assert again["curves"] == again["layers"] == []
    assert not {"lanes", "history", "detail"} & again.keys()


def test_runs_that_come_later_are_found_and_the_others_side_by_side(tmp_path: Path) -> None:
    write_run(tmp_path / "prunefl" / "seed-0", "prunefl", 0, rounds=20)
    hub = hub_of(tmp_path)
    write_run(tmp_path / "snip" / "seed-0", "snip", 0, rounds=20)
    assert any(hub.look() for _ in range(5))
    news = Reader(hub).news()
    assert [run["name"] for run in news["runs"]] == ["prunefl/seed-0", "snip/seed-0"]
    curves = {(piece["run"], piece["name"]) for piece in news["curves"]}
    # of the run that is not chosen, only what is compared
    other = news["runs"][1]["key"]
    assert {name for run, name in curves if run == other} == {"accuracy", "loss"}
    chosen = Reader(hub, other).news()
    assert chosen["chosen"] == other
    assert chosen["detail"]["folder"] == str(tmp_path / "snip" / "seed-0")


def test_a_folder_without_runs_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder"):
        refuse_empty([tmp_path / "none"])
    with pytest.raises(ValueError, match="no runs found"):
        refuse_empty([tmp_path])


def test_densities_of_layers_are_live_over_size(tmp_path: Path) -> None:
    view = view_of(write_run(tmp_path / "a", "snip", 0, rounds=20))
    last = [r for r in records(view.folder) if "live" in r][-1]["live"]
    found = {name: curve.last[-1] for name, curve in view.layers.items()}
    assert found == {name: last[name] / size for name, size in LAYERS.items()}
    assert view.summary()["density"] == pytest.approx(sum(last.values()) / TOTAL)
