"""Runs that are missing are run, others reused; a stop, a kill or another number of jobs changes no number."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prunefl.config import Config, dump, override
from prunefl.experiments import Job, Progress, plan_comparison, plan_lottery, run_jobs
from prunefl.experiments.folders import final_density, finished, last_round
from prunefl.system.locks import hold

SETTINGS = [
    *(
        "run.rounds=6",
        "run.eval_every=2",
        "data.clients=2",
        "model.name=lenet300100",
        "training.learning_rate=0.1",
    ),
    *(
        "pruning.interval=2",
        "initial.interval=2",
        "initial.clients=1",
        "initial.max_passes=6",
        "training.local_steps=2",
    ),
]
METHODS = ["prunefl", "snip", "conventional"]


def small(*more: str) -> Config:
    return override(Config(), [*SETTINGS, *more])


def plan(out: Path, *more: str) -> list[Job]:
    return plan_comparison(small(*more), METHODS, [0], out)


def go(jobs: list[Job], at_once: int = 1, stop_after: int = 10**9) -> list[Progress]:
    """Run the jobs and return all that was told; stop after so many steps."""
    told: list[Progress] = []
    run_jobs(jobs, at_once, told.append, lambda: len(told) >= stop_after)
    return told


def numbers(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all records of all runs without what the machine's own clock says."""
    return {
        str(path.parent.relative_to(out)): [
            {
                key: value
                for key, value in json.loads(line).items()
                if not key.startswith(("wall", "started", "config_digest"))
            }
            | (
                {"total": json.loads(line)["total"] | {"wall_seconds": 0}}
                if "total" in json.loads(line)
                else {}
            )
            for line in path.read_text().splitlines()
        ]
        for path in out.rglob("records.jsonl")
    }


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a comparison that ran through at once."""
    out = tmp_path_factory.mktemp("straight")
    assert [step.state for step in go(plan(out)) if step.state != "running"] == ["done"] * 3
    return out


def test_snip_has_exactly_the_density_that_prunefl_ended_with(straight: Path) -> None:
    ended = numbers(straight)
    assert ended["snip/seed-0"][-1]["density"] == ended["prunefl/seed-0"][-1]["density"] < 1


def test_initial_pruning_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunefl.experiments.jobs.PASSES_TOLD", 2)
    told = [step.detail for step in go(plan(tmp_path)[:1]) if step.detail]
    assert told[0].startswith("initial pruning, pass 2, density ")
    assert len(told) == 3


def test_what_is_done_is_reused(straight: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in straight.rglob("records.jsonl")}
    assert [step.state for step in go(plan(straight))] == ["reused"] * 3
    assert {path: path.stat().st_mtime_ns for path in straight.rglob("records.jsonl")} == before


def test_a_stopped_comparison_goes_on_to_the_same_numbers(straight: Path, tmp_path: Path) -> None:
    told = go(plan(tmp_path), stop_after=4)
    assert told[-1].state == "stopped"
    assert len(list(tmp_path.rglob("records.jsonl"))) == 1
    go(plan(tmp_path))
    assert numbers(tmp_path) == numbers(straight)


def test_runs_side_by_side_killed_half_way_come_to_the_same_numbers(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(dump(small()))
    out, watched = tmp_path / "out", tmp_path / "out" / "conventional" / "seed-0"
    words = ["compare", str(tmp_path / "c.toml"), "--methods", "prunefl,conventional", "--seeds", "1"]
    command = [sys.executable, "-c", "from prunefl.commands.main import main; main()", *words]
    command += ["--jobs", "2", "--out", str(out), "--no-report"]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while last_round(watched) < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert last_round(watched) >= 1
    second = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert second.returncode == 0, second.stderr
    expected = numbers(straight)
    del expected["snip/seed-0"]
    assert numbers(out) == expected


def test_another_config_in_the_same_folder_is_refused(straight: Path) -> None:
    with pytest.raises(ValueError, match=r"training.local_steps=3, but the run in .* has 2"):
        go(plan(straight, "training.local_steps=3"))


@pytest.mark.parametrize("at_once", [1, 2])
def test_two_processes_never_work_at_one_run_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("prunefl.experiments.jobs.LOCK_SECONDS", 0.3)
    busy, free = plan_comparison(small(), ["conventional", "erk:0.5"], [0], tmp_path)
    with hold(busy.folder):
        ended = {step.job.folder: step for step in go([busy, free], at_once) if step.state != "running"}
    assert ended[busy.folder].state == "failed"
    assert f"process {os.getpid()} on" in ended[busy.folder].detail
    assert ended[free.folder].state == "done"


def test_a_run_that_is_killed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr("prunefl.experiments.jobs._PROGRAM", program)
    told = go(plan_comparison(small(), ["conventional"], [0], tmp_path), at_once=2)
    assert (told[-1].state, told[-1].detail) == ("failed", "killed by SIGKILL; the same command goes on")


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_run_that_fails_is_told_of_and_what_needs_its_density_too(tmp_path: Path, at_once: int) -> None:
    jobs = [job for job in plan(tmp_path, "data.name=nonsense") if job.config.run.method != "conventional"]
    jobs += plan_comparison(small(), ["conventional"], [0], tmp_path)
    ended = {step.job.config.run.method: step for step in go(jobs, at_once) if step.state != "running"}
    assert {method: step.state for method, step in ended.items()} == {
        "prunefl": "failed",
        "snip": "failed",
        "conventional": "done",
    }
    assert "data.name='nonsense'" in ended["prunefl"].detail
    assert f"its density comes from {tmp_path / 'prunefl' / 'seed-0'}" in ended["snip"].detail


def test_a_run_that_stands_twice_runs_once_and_two_that_differ_do_not_share_a_folder(tmp_path: Path) -> None:
    twice = plan_comparison(small(), ["snip:0.30", "snip:0.3"], [0], tmp_path)
    assert [step.state for step in go(twice) if step.state != "running"] == ["done"]
    job = plan_comparison(small(), ["conventional"], [0], tmp_path)[0]
    with pytest.raises(ValueError, match=r"differ and share .*conventional/seed-0"):
        go([job, replace(job, config=small("run.rounds=7"))])


def test_a_ticket_starts_from_the_same_weights_and_the_other_from_others(
    straight: Path, tmp_path: Path
) -> None:
    jobs = [
        job
        for job in plan_lottery([straight / "prunefl" / "seed-0"], tmp_path)
        if "ticket" in str(job.folder)
    ]
    go(jobs)
    ended = numbers(tmp_path)
    parent = numbers(straight)["prunefl/seed-0"][-1]
    same, other = ended["ticket/seed-0"], ended["ticket-other-weights/seed-0"]
    assert same[-1]["density"] == other[-1]["density"] == parent["density"]
    assert [r["loss"] for r in same if r["kind"] == "round"] != [
        r["loss"] for r in other if r["kind"] == "round"
    ]


def test_the_last_record_is_read_from_the_end_of_a_damaged_file(tmp_path: Path) -> None:
    assert (last_round(tmp_path), finished(tmp_path)) == (0, False)
    path = tmp_path / "records.jsonl"
    path.write_text('{"kind":"round","round":7}\n{"kind":"rou')
    assert (last_round(tmp_path), finished(tmp_path)) == (7, False)
    path.write_text('{"kind":"round","round":7}\n{"kind":"end","rounds":7,"density":0.5}\n')
    assert (last_round(tmp_path), finished(tmp_path), final_density(tmp_path)) == (7, True, 0.5)
