"""Files are whole or not there, say which one is wrong, and stay readable to later versions."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from prunefl.system import files
from prunefl.system.files import CheckpointError, load_arrays, save_arrays

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "one": np.asarray(3, dtype=np.int64),
    "none": np.zeros((0, 4), np.float32),
    "bits": np.array([1, 255], np.uint8),
}


def test_arrays_and_json_come_back_as_they_were(tmp_path: Path) -> None:
    path = save_arrays(tmp_path / "x", ARRAYS, {"round": 3, "names": ["ü"]})
    arrays, about = load_arrays(path)
    assert about == {"round": 3, "names": ["ü"]}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
        assert arrays[name].flags.writeable


def test_a_file_that_torch_wrote_is_read_and_the_other_way_round(tmp_path: Path) -> None:
    path = save_arrays(tmp_path / "x", ARRAYS, {"n": 1})
    tensors = {name: torch.from_numpy(array.copy()).contiguous() for name, array in ARRAYS.items()}
    assert safetensors.torch.save(tensors, {"about": '{"n": 1}'}) == path.read_bytes()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data + b"x"])
def test_a_damaged_file_is_named(tmp_path: Path, damage) -> None:
    path = save_arrays(tmp_path / "x", ARRAYS, {})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=f"{path.name}: the bytes do not match their checksum"):
        load_arrays(path)
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        load_arrays(tmp_path / "missing")


@pytest.mark.parametrize("write", [files.write_atomically, files.write_first, files.write_private])
def test_what_fails_halfway_leaves_nothing_and_names_the_file(tmp_path: Path, monkeypatch, write) -> None:
    path = tmp_path / "folder" / "x"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left") as raised:
        write(path, b"data")
    assert raised.value.filename == str(path)
    assert list(path.parent.iterdir()) == []


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        files.write_first(tmp_path / "x", content)
    assert (tmp_path / "x").read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_private_file_was_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    assert stat.S_IMODE(files.write_private(path, b"new").stat().st_mode) == 0o600
    assert path.read_bytes() == b"new"


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path))
    assert files.cache_folder() == tmp_path
    monkeypatch.delenv("PRUNEFL_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.cache_folder() == tmp_path / ".cache" / "prunefl"
