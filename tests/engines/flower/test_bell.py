"""The bell: heard by who listens, and no trouble where nobody does."""

import threading
from pathlib import Path

import pytest

from prunefl.engines.flower.bell import FILE, Bell, ring


@pytest.mark.parametrize("depth", [0, 12])
def test_who_listens_hears_it_however_deep_its_folder_lies(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a-folder-with-a-name"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    heard = threading.Semaphore(0)
    with Bell(folder / FILE, heard.release):
        for _ in range(3):
            ring(folder / FILE)
        assert all(heard.acquire(timeout=10) for _ in range(3))
        assert (folder / FILE).stat().st_mode & 0o077 == 0
    assert not (folder / FILE).exists()


def test_nobody_has_to_listen(tmp_path: Path) -> None:
    ring(tmp_path / FILE)
    with Bell(tmp_path / FILE, lambda: None):
        pass
    ring(tmp_path / FILE)


def test_a_bell_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    heard = threading.Semaphore(0)
    with Bell(tmp_path / FILE, lambda: None), Bell(tmp_path / FILE, heard.release):
        ring(tmp_path / FILE)
        assert heard.acquire(timeout=10)


def test_ringing_never_waits_for_who_does_not_hear(tmp_path: Path) -> None:
    busy = threading.Event()
    with Bell(tmp_path / FILE, lambda: busy.wait(30)):
        for _ in range(5000):
            ring(tmp_path / FILE)
        busy.set()
