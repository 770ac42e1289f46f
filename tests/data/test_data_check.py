"""`prunefl data check` knows each layout, says what is missing and how clients are cut."""

import json
from pathlib import Path

import numpy as np
import pytest
from data_trees import pixels, save
from typer.testing import CliRunner

from prunefl import data
from prunefl.commands.data import app
from prunefl.data.check import recognise

runner = CliRunner()


def touch(path: Path, content: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["train-images-idx3-ubyte.gz"], "mnist"),
        (["train/all_data_0.json"], "femnist"),
        (["data/train/all_data_0.json"], "femnist"),
        (["cifar-10-batches-bin/data_batch_2.bin"], "cifar10"),
        (["identity_CelebA.txt"], "celeba"),
        (["train/n01440764/n01440764_18.JPEG"], "imagenet100"),
        (["index.csv", "images/a.png"], "csv"),
        (["cat/a.png", "dog/b.jpg"], "folder-per-class"),
        (["train/cat/a.png", "test/cat/b.png"], "folder-per-class"),
        (["ann/cat/a.png"], "folder-per-client"),
        (["train/ann/cat/a.png", "test/cat/b.png"], "folder-per-client"),
    ],
)
def test_each_layout_is_recognised_even_in_part(tmp_path: Path, files: list[str], name: str) -> None:
    for file in files:
        touch(tmp_path / file)
    assert recognise(tmp_path) == name


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        ("train-images-idx3-ubyte.gz.part", "mnist", "prunefl data get mnist --dir DIR"),
        ("parquet/train-0.parquet.part", "femnist", "prunefl data get femnist --dir DIR"),
        ("cifar-10-binary.tar.gz.part", "cifar10", "prunefl data get cifar10 --dir DIR"),
        ("cifar-10-binary.tar.gz", "cifar10", "prunefl data get cifar10 --dir DIR"),
        ("img_align_celeba.zip", "celeba", r"unpack .*/img_align_celeba\.zip"),
        ("ILSVRC2012_img_train.tar", "imagenet100", r"unpack .*/ILSVRC2012_img_train\.tar"),
    ],
)
def test_what_is_half_fetched_or_still_packed_is_recognised(
    tmp_path: Path, file: str, name: str, message: str
) -> None:
    touch(tmp_path / file)
    assert recognise(tmp_path) == name
    with pytest.raises(ValueError, match=rf"has no .* \({message}\)"):
        data.load(name, tmp_path)


def test_an_unknown_folder_is_refused(tmp_path: Path) -> None:
    touch(tmp_path / "thesis.pdf")
    with pytest.raises(ValueError, match="no data set that prunefl knows"):
        recognise(tmp_path)
    with pytest.raises(ValueError, match="no such folder"):
        recognise(tmp_path / "absent")


def test_check_says_what_is_there_and_how_clients_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(
        path,
        x_train=np.zeros((40, 3, 5, 5), np.uint8),
        y_train=np.arange(40) % 4,
        client_train=np.minimum(np.arange(40) // 4, 3),
        x_test=np.zeros((7, 3, 5, 5), np.uint8),
        y_test=np.zeros(7, int),
    )
    result = runner.invoke(app, ["check", str(path)])
    assert result.exit_code == 0, result.output
    assert "40 training and 7 test samples of 3×5×5, 4 classes" in result.output
    assert "cut: 4 clients, as the data names them" in result.output
    row = next(line for line in result.output.splitlines() if "│ samples" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["4", "samples", "4", "4", "28"]


def test_check_lists_missing_files_before_it_refuses(tmp_path: Path) -> None:
    touch(tmp_path / "data_batch_1.bin", bytes(3073))
    result = runner.invoke(app, ["check", str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    assert "has no data_batch_2.bin" in str(result.exception)
    assert "missing" in next(line for line in result.output.splitlines() if "test_batch.bin" in line)
    assert "there" in next(line for line in result.output.splitlines() if "data_batch_1.bin" in line)


def test_check_can_cut_otherwise(tmp_path: Path) -> None:
    entry = {"x": [[0.5] * 784] * 6, "y": list(range(6))}
    shard = {"users": ["a", "b"], "num_samples": [6, 6], "user_data": {"a": entry, "b": entry}}
    for split in ("train", "test"):
        touch(tmp_path / split / "all_data_0.json", json.dumps(shard).encode())
    result = runner.invoke(app, ["check", str(tmp_path), "--partition", "iid", "--clients", "3"])
    assert result.exit_code == 0, result.output
    assert "cut: 3 clients, IID" in result.output


def test_get_prints_instructions_and_says_that_nothing_was_got(tmp_path: Path) -> None:
    result = runner.invoke(app, ["get", "celeba", "--dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "mmlab.ie.cuhk.edu.hk" in result.output


def test_check_names_the_classes_with_their_samples(tmp_path: Path) -> None:
    for name, count in {"cat": 3, "a dog": 5}.items():
        for number in range(count):
            save(tmp_path / "train" / name / f"{number}.png", pixels(4, 4, 3))
    for name in ("cat", "a dog"):
        save(tmp_path / "test" / name / "0.png", pixels(4, 4, 3))
    result = runner.invoke(app, ["check", str(tmp_path), "--clients", "2"])
    assert result.exit_code == 0, result.output
    assert "classes: a dog (5), cat (3)" in result.output
