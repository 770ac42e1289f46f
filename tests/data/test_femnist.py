"""FEMNIST out of LEAF's JSON: right, quick the second time, and strict about what is broken."""

import json
from pathlib import Path

import numpy as np
import pytest
from data_trees import every, leaf_shard, write_leaf

from prunefl import data
from prunefl.data import cache
from prunefl.data.samples import Images


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
        np.testing.assert_allclose(x.reshape(len(x), -1), 1 - np.array(entries[name]["x"]), atol=1e-6, rtol=0)
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
        np.testing.assert_array_equal(every(a)[0], every(b)[0])
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
    elif change == "half a label":
        entry["y"][1] = 3.5
    elif change == "counts":
        shard["num_samples"].pop()
    elif change == "users":
        shard["users"] = 3
    elif change == "user_data":
        shard["user_data"] = [entry]
    elif change == "user":
        del shard["user_data"]["b"]
    elif change == "key":
        del shard["num_samples"]
    return json.dumps(shard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("short image", "writer 'b'.*must be x of 784 numbers"),
        ("label", r"writer 'b' has a label that is no whole number in 0\.\.61"),
        ("half a label", r"writer 'b' has a label that is no whole number in 0\.\.61"),
        ("counts", "2 users and 1 num_samples, must be as many"),
        ("users", "must have lists users and num_samples"),
        ("user_data", "must have lists users and num_samples, and writers in user_data"),
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


def test_a_writer_in_two_files_of_a_split_is_refused(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    path = tmp_path / "train" / "all_data_11_niid_0_keep_0_train_9.json"
    path.write_text(json.dumps(leaf_shard({"w1": 2})))
    with pytest.raises(ValueError, match=r"all_data_11_.*writer 'w1' is in all_data_1_.* too.*get all again"):
        data.load("femnist", tmp_path)


def test_a_split_without_writers_is_refused(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    next((tmp_path / "test").iterdir()).write_text(json.dumps(leaf_shard({})))
    with pytest.raises(ValueError, match="test: no writer in any file, must have at least 1"):
        data.load("femnist", tmp_path)


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    (tmp_path / "test" / "all_data_1.json").symlink_to(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"all_data_1\.json: cannot be read .*get or unpack it again"):
        data.load("femnist", tmp_path)


def test_leafs_own_folder_data_is_found(tmp_path: Path) -> None:
    write_leaf(tmp_path / "data")
    assert len(data.load("femnist", tmp_path).clients) == 12
