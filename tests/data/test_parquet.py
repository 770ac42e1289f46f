"""Flower's parquet files become LEAF's folders, whole or not at all, whatever was there before."""

from pathlib import Path

import pytest
from data_trees import every, parquet, quiet

from prunefl import data
from prunefl.data import get
from prunefl.data.parquet import write_leaf


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four writers of 20 images each, two writers a shard; the pixel tells an image."""
    monkeypatch.setattr("prunefl.data.parquet.WRITERS_A_SHARD", 2)
    path = tmp_path / "rows.parquet"
    path.write_bytes(parquet([(i, f"f{i % 4:04d}_00", i % 62) for i in range(80)]))
    return path


def images(samples: data.Samples) -> set[int]:
    x, _ = every(samples)
    return set((255 - x[:, 0, 0, 0] * 255).round().astype(int).tolist())


def test_fewer_writers_replace_all_of_them(tmp_path: Path, rows: Path) -> None:
    write_leaf([rows], tmp_path, 0, quiet)
    assert len(data.load("femnist", tmp_path).clients) == 4
    write_leaf([rows], tmp_path, 2, quiet)
    federation = data.load("femnist", tmp_path)
    assert [len(client) for client in federation.clients] == [18, 18]
    assert not images(federation.test) & set().union(*map(images, federation.clients))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and path.name[0] != ".") == [
        "test",
        "train",
    ]


def test_an_interruption_leaves_what_was_there(tmp_path: Path, rows: Path) -> None:
    def interrupt(name: str, done: int, total: int) -> None:
        if done > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_leaf([rows], tmp_path, 0, interrupt)
    with pytest.raises(ValueError, match="has no folder train"):
        data.load("femnist", tmp_path)
    write_leaf([rows], tmp_path, 3, quiet)
    with pytest.raises(KeyboardInterrupt):
        write_leaf([rows], tmp_path, 0, interrupt)
    assert len(data.load("femnist", tmp_path).clients) == 3


def test_another_data_set_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "train" / "n01440764").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"n01440764: not one of LEAF's files.*choose another --dir"):
        get.get("femnist", tmp_path, quiet)


def test_half_a_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet([(1, "a", 1)])[:-20])
    with pytest.raises(ValueError, match=r"a\.parquet: not a whole parquet file"):
        write_leaf([path], tmp_path, 0, quiet)
