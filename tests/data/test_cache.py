"""What is decoded is built once, whole or not at all, and leaves nothing else behind."""

import os
import time
from pathlib import Path

import pytest

from prunefl.data import cache


def write(folder: Path, text: str) -> None:
    (folder / "x").write_text(text)


def test_two_builders_at_once_leave_one_cache(tmp_path: Path) -> None:
    def build_while_another_finishes(folder: Path) -> None:
        write(folder, "1")
        cache.cached("n", "k", lambda f: write(f, "2"), beside=None, folder=tmp_path)

    target = cache.cached("n", "k", build_while_another_finishes, beside=None, folder=tmp_path)
    assert (target / "x").read_text() == "2"
    assert len(list(tmp_path.iterdir())) == 1


def test_where_the_data_folder_cannot_be_written_to_the_users_cache_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path / "user"))
    (tmp_path / "file").write_text("no folder can be made in here")
    built = cache.cached("n", "k", lambda f: write(f, "1"), beside=tmp_path / "file")
    assert built == tmp_path / "user" / "data" / "n-k"
    with pytest.raises(ValueError, match=r"data\.cache=.*cannot be written to"):
        cache.cached("n", "k", lambda f: None, beside=None, folder=tmp_path / "file")


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "pixels.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"pixels\.npy' is damaged.*delete its folder"):
        cache.open_array(tmp_path, "pixels")


def test_what_a_killed_build_left_is_removed_after_a_day(tmp_path: Path) -> None:
    for name, days in ((".n-killed", 2.0), (".n-alive", 0.5), (".other-killed", 2.0)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "half")
        then = time.time() - days * cache.DAY_SECONDS
        os.utime(tmp_path / name / "x", (then, then))
        # a folder's own time stands still while its files grow
        os.utime(tmp_path / name, (0, 0))
    cache.cached("n", "k", lambda f: write(f, "1"), beside=None, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".n-alive", ".other-killed", "n-k"]


def test_a_source_that_cannot_be_read_is_blamed_and_not_the_cache(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (tmp_path / "absent.bin").read_bytes()

    with pytest.raises(ValueError, match=r"absent\.bin: cannot be read \(No such file"):
        cache.cached("n", "k", build, beside=None, folder=tmp_path)
    with pytest.raises(ValueError, match=r"data\.cache=.*could not be written"):
        cache.cached("n", "k", lambda f: write(f / "none", "1"), beside=None, folder=tmp_path)
