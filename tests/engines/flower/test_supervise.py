"""No process is left behind, however its parent ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prunefl.engines.flower.supervise import Backoff, run_group, tail

CHILD = """
import subprocess, sys, time, pathlib, signal
from prunefl.engines.flower.forks import die_with_parent
die_with_parent()
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(f"{grandchild.pid}")
time.sleep(600)
"""
PARENT = """
import sys, time, pathlib
from prunefl.engines.flower.supervise import run_group, Stopped
try:
    with run_group(pathlib.Path(sys.argv[1]), {}) as members:
        process = members.start("child", ["child_module", sys.argv[2]])
        pathlib.Path(sys.argv[3]).write_text(str(process.pid))
        {body}
except Stopped:
    pass
"""


def gone(number: int, seconds: float = 10.0) -> bool:
    """Return whether a process ends (a zombie has ended) within so many seconds."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def start(tmp_path: Path, body: str) -> tuple[subprocess.Popen, int, int]:
    """Start a parent with a run_group of one child and one grandchild; return it and their numbers."""
    (tmp_path / "child_module.py").write_text(CHILD)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    files = [tmp_path / "grandchild", tmp_path / "child"]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.replace("{body}", body), str(tmp_path / "logs"), *map(str, files)],
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    limit = time.monotonic() + 30
    while time.monotonic() < limit and not all(path.exists() and path.read_text() for path in files):
        time.sleep(0.05)
    grandchild, child = (int(path.read_text()) for path in files)
    return parent, child, grandchild


STUBBORN = """
        while True:
            try:
                time.sleep(600)
            except Exception:
                pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_processes_are_gone_after_a_signal_even_where_every_exception_is_caught(tmp_path, number):
    parent, child, grandchild = start(tmp_path, STUBBORN)
    parent.send_signal(number)
    parent.wait(15)
    assert gone(child)
    assert gone(grandchild)


def test_all_processes_are_gone_after_an_error(tmp_path):
    parent, child, grandchild = start(tmp_path, "time.sleep(2); raise RuntimeError('a test failed')")
    parent.wait(15)
    assert gone(child)
    assert gone(grandchild)


def test_a_child_does_not_outlive_a_parent_that_was_killed(tmp_path):
    parent, child, grandchild = start(tmp_path, "time.sleep(600)")
    parent.kill()
    parent.wait()
    assert gone(child)
    os.kill(grandchild, signal.SIGKILL)


def test_a_child_whose_parent_died_before_it_was_bound_ends_at_once(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "prunefl.engines.flower.child", "1", "platform"]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, b"")


def test_a_child_is_bound_before_it_imports_anything_slow(tmp_path):
    """A worker takes seconds to load torch; its parent may be killed in them."""
    (tmp_path / "slow_module.py").write_text("import time; time.sleep(600)")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    code = (
        "import os, pathlib, sys, time; from prunefl.engines.flower.supervise import run_group\n"
        "with run_group(pathlib.Path(sys.argv[1]), {}) as members:\n"
        "    pathlib.Path(sys.argv[2]).write_text(str(members.start('slow', ['slow_module']).pid)); time.sleep(600)"
    )
    file = tmp_path / "number"
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "logs"), str(file)], env=environment
    )
    limit = time.monotonic() + 60
    while time.monotonic() < limit and not (file.exists() and file.read_text()):
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    assert gone(int(file.read_text()), 30)


def test_who_has_ended_is_named(tmp_path):
    with run_group(tmp_path / "logs", {}) as members:
        members.start("platform", ["platform"]).wait()
        assert members.find_ended() == ["platform"]
        assert tail(tmp_path / "logs" / "platform.log")


def test_waiting_doubles_up_to_a_limit_and_is_forgotten_after_calm(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    backoff = Backoff(first=1.0, limit=5.0, calm=60.0)
    assert [backoff.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    now[0] += 61
    assert backoff.next() == 1.0
