"""One process at a time in a folder: who is refused, what is said, and what a killed holder leaves."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prunefl.system import locks
from prunefl.system.locks import FolderInUseError, hold

HOLD = """
import sys, time
from pathlib import Path
from prunefl.system.locks import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Yield a process that holds the folder."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_second_is_told_who_holds_the_folder(tmp_path: Path, holder) -> None:
    with pytest.raises(FolderInUseError) as refused, hold(tmp_path):
        pass
    said = str(refused.value)
    assert said.startswith(f"{tmp_path}: process {holder.pid} on ")
    assert f"(`-c {tmp_path}`, since 20" in said
    assert "\n" not in said


def test_a_killed_holder_leaves_the_folder_free(tmp_path: Path, holder) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with hold(tmp_path):
        assert str(os.getpid()) in (tmp_path / locks.LOCK_FILE).read_text()


def test_who_waits_gets_the_folder_when_it_is_free(tmp_path: Path, holder) -> None:
    timer = threading.Timer(0.3, holder.kill)
    timer.start()
    with hold(tmp_path, wait_seconds=30):
        timer.join()


def test_two_threads_of_one_process_are_two(tmp_path: Path) -> None:
    refused = []

    def second() -> None:
        with pytest.raises(FolderInUseError) as error, hold(tmp_path):
            pass
        refused.append(error.value)

    with hold(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_a_child_that_is_given_the_lock_holds_it_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with hold(tmp_path) as lock:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[lock], env=locks.for_child(lock))
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUseError, match=f"process {child.pid} on"), hold(tmp_path):
            pass
        child.kill()
    with hold(tmp_path):
        pass


def test_a_descriptor_of_another_file_is_not_taken_for_the_lock(tmp_path: Path, monkeypatch) -> None:
    with (tmp_path / "other").open("w") as file, hold(tmp_path / "x"):
        monkeypatch.setenv(locks.INHERITED, str(file.fileno()))
        with pytest.raises(FolderInUseError), hold(tmp_path / "x"):
            pass


def test_a_folder_that_was_removed_while_it_was_held_can_be_held_anew(tmp_path: Path) -> None:
    with hold(tmp_path / "x"):
        (tmp_path / "x" / locks.LOCK_FILE).unlink()
        with hold(tmp_path / "x"):
            pass


def test_a_damaged_lock_file_confuses_nobody(tmp_path: Path) -> None:
    (tmp_path / locks.LOCK_FILE).write_bytes(b"\xff\x00nonsense")
    with hold(tmp_path):
        (tmp_path / locks.LOCK_FILE).write_bytes(b"[1]")
        with pytest.raises(FolderInUseError, match="another process is at work there"), hold(tmp_path):
            pass
