"""FEMNIST as LEAF writes it: JSON shards of writers, 784 numbers an image."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from prunefl.data import cache
from prunefl.data.federation import Source
from prunefl.data.files import found_folder, natural_order, need_folder
from prunefl.data.samples import Images
from prunefl.data.transform import to_inverted_unit
from prunefl.system.errors import PruneFLError

CLASSES = 62
AGAIN = "get or write it again"


def femnist(folder: Path | None, cache_folder: Path | None = None) -> Source:
    """Return LEAF's FEMNIST, writers in the order of the files. Decoded once, then memory-mapped."""
    folder = need_folder("femnist", folder)
    shards = {split: _shards(folder, split) for split in ("train", "test")}
    key = cache.fingerprint(shards["train"] + shards["test"])
    built = cache.cached("femnist", key, lambda to: _build(to, shards), beside=folder, folder=cache_folder)
    train, test = (Images.whole(*cache.open_split(built, split), to_inverted_unit) for split in shards)
    writers = cache.open_array(built, "writer_train")
    return Source("femnist", train, test, CLASSES, (1, 28, 28), writers, "writer", "writer", 0)


def read_shard(path: Path) -> Iterator[tuple[str, Any, Any]]:
    """Yield (writer, pixels uint8 (n, 784), labels int64 (n,)) of a LEAF file, each checked."""
    try:
        shard = json.loads(path.read_bytes())
        users, counts, data = shard["users"], shard["num_samples"], shard["user_data"]
    except (ValueError, RecursionError) as error:
        raise PruneFLError(f"{path}: not valid JSON ({error}), perhaps cut short: {AGAIN}") from error
    except (KeyError, TypeError) as error:
        raise PruneFLError(f"{path}: has no {error}, must have users, num_samples and user_data") from error
    if not (isinstance(users, list) and isinstance(counts, list) and isinstance(data, dict)):
        raise PruneFLError(
            f"{path}: must have lists users and num_samples, and writers in user_data: {AGAIN}"
        )
    if len(users) != len(counts):
        raise PruneFLError(
            f"{path}: {len(users)} users and {len(counts)} num_samples, must be as many: {AGAIN}"
        )
    for user, count in zip(users, counts, strict=True):
        # popped, so that a writer's numbers are freed once they are pixels
        entry = data.pop(str(user), None)
        if not isinstance(entry, dict):
            raise PruneFLError(f"{path}: writer {user!r} is not in user_data: {AGAIN}")
        pixels, labels = _decode(path, user, entry)
        if not len(labels) == count >= 1:
            raise PruneFLError(
                f"{path}: writer {user!r} has {len(labels)} samples, num_samples={count}, must agree, >= 1"
            )
        yield str(user), pixels, labels


def _decode(path: Path, user: str, entry: dict[str, Any]) -> tuple[Any, Any]:
    """Return a writer's pixels and labels."""
    try:
        values = np.asarray(entry["x"], dtype=np.float64).reshape(-1, 784)
        labels = np.asarray(entry["y"], dtype=np.float64).reshape(-1)
    except (KeyError, ValueError, TypeError) as error:
        raise PruneFLError(f"{path}: writer {user!r}: {error}, must be x of 784 numbers and y") from error
    if len(values) != len(labels):
        raise PruneFLError(f"{path}: writer {user!r} has {len(values)} images and {len(labels)} labels")
    # written so that a NaN fails too
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise PruneFLError(
            f"{path}: writer {user!r} has pixels outside 0..1, must be within as LEAF writes them"
        )
    if not bool(np.isin(labels, np.arange(CLASSES)).all()):
        raise PruneFLError(f"{path}: writer {user!r} has a label that is no whole number in 0..{CLASSES - 1}")
    return (values * 255.0).round().astype(np.uint8), labels.astype(np.int64)


def _build(folder: Path, shards: dict[str, list[Path]]) -> None:
    """Decode shard by shard: all of FEMNIST as Python numbers would not fit in memory."""
    order: dict[str, int] = {}
    for split in ("train", "test"):
        labels, writers = [], []
        home: dict[str, Path] = {}
        with (folder / "pixels").open("wb") as raw:
            for path in shards[split]:
                for user, pixels, y in read_shard(path):
                    if home.setdefault(user, path) != path:
                        raise PruneFLError(
                            f"{path}: writer {user!r} is in {home[user].name} too, must be in one file: "
                            "delete the older files, or get all again"
                        )
                    writer = order.setdefault(user, len(order))
                    raw.write(pixels.tobytes())
                    labels.append(y)
                    writers.append(np.full(len(y), writer, np.int64))
        if not labels:
            raise PruneFLError(
                f"{shards[split][0].parent}: no writer in any file, must have at least 1: {AGAIN}"
            )
        np.save(folder / f"labels_{split}.npy", np.concatenate(labels))
        np.save(folder / f"writer_{split}.npy", np.concatenate(writers))
        _rename_as_array(folder, f"pixels_{split}", sum(map(len, labels)))


def _rename_as_array(folder: Path, name: str, samples: int) -> None:
    """Turn the raw pixels into a .npy file without holding them in memory."""
    raw = np.memmap(folder / "pixels", np.uint8, "r", shape=(samples, 1, 28, 28))
    array = cache.create_array(folder, name, raw.shape)
    array[:] = raw
    array.flush()
    (folder / "pixels").unlink()


def _shards(folder: Path, split: str) -> list[Path]:
    """Return the split's JSON files in shard order; LEAF nests them in a folder `data`."""
    home = found_folder("femnist", [folder / split, folder / "data" / split], split)
    shards = natural_order(list(home.glob("*.json")))
    if not shards:
        raise PruneFLError(f"data.dir={str(folder)!r}, {split}/ has no .json file, must hold LEAF's shards")
    return shards
