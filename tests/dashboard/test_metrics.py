"""What Prometheus reads is what the records say, and board and alerts ask for what there is."""

import json
import re
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from prunefl.dashboard.metrics import render_metrics
from prunefl.dashboard.run_view import RunView
from prunefl.engines.flower.membership import Member
from prunefl.engines.flower.status import Status
from prunefl.system.locks import hold
from synthetic import write_run

EXAMPLES = Path(__file__).parents[2] / "examples" / "monitoring"
HOSTILE = 'a"b\\c\nd{e="f"}<script>'


def samples(folder: Path, name: str = "a") -> dict[tuple[str, str], float]:
    view = RunView(folder, name, "r0")
    with hold(folder):
        view.look()
        text = render_metrics([view]).decode()
    return {
        (sample.name, sample.labels.get("client", sample.labels.get("state", ""))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["run"] == name
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write_run(tmp_path / "a", "snip", 0, rounds=20, end=False)
    members = {
        0: Member(0, 5, online=True, message="m", last_seen=time.time(), num_samples=60),
        1: Member(1, 6, refusals=2, accuracy=0.25),
    }
    Status(made, 20, members, "training").write(now=True)
    return made


def test_metrics_are_the_numbers_of_the_last_record(folder: Path) -> None:
    last = json.loads((folder / "records.jsonl").read_text().splitlines()[-1])
    found = samples(folder)
    assert found["prunefl_round", ""] == 20
    assert found["prunefl_accuracy", ""] == last["accuracy"]
    assert found["prunefl_density", ""] == last["density"]
    assert found["prunefl_bytes_up_total", ""] == last["total"]["bytes_up"]
    assert found["prunefl_simulated_seconds_total", ""] == pytest.approx(last["total"]["seconds"])
    assert (found["prunefl_state", "training"], found["prunefl_state", "stopped"]) == (1, 0)
    assert (found["prunefl_client_up", "0"], found["prunefl_client_up", "1"]) == (1, 0)
    assert found["prunefl_client_accuracy", "1"] == 0.25
    assert found["prunefl_client_refused_total", "1"] == 2


def test_another_metric_is_not_called_accuracy(tmp_path: Path) -> None:
    made = write_run(tmp_path / "a", "snip", 0, rounds=20, end=False)
    text = (made / "records.jsonl").read_text()
    text = text.replace('"kind": "run"', '"kind": "run", "metric": "perplexity"', 1)
    (made / "records.jsonl").write_text(text.replace('"accuracy"', '"score"'))
    found = samples(made)
    assert found["prunefl_score", ""] == json.loads(text.splitlines()[-1])["accuracy"]
    assert ("prunefl_accuracy", "") not in found


def test_the_time_of_the_last_round_is_told(folder: Path) -> None:
    at = (folder / "records.jsonl").stat().st_mtime
    assert samples(folder)["prunefl_round_timestamp_seconds", ""] == pytest.approx(at)


def test_a_hostile_name_is_one_label(folder: Path) -> None:
    assert samples(folder, HOSTILE)["prunefl_round", ""] == 20


def test_board_and_alerts_ask_only_for_metrics_that_there_are(folder: Path) -> None:
    there = {name for name, _ in samples(folder)}
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    queries += re.findall(r"expr: (.*)", (EXAMPLES / "alerts.yml").read_text())
    assert len(queries) > 12
    asked = {name for query in queries for name in re.findall(r"prunefl_\w+", query)}
    assert asked - there == {"prunefl_clients_accuracy"}
