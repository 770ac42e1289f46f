"""Small trees in the layouts of real data sets, written by the tests that read them."""

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from prunefl import data

RANDOM = np.random.default_rng(0)


def contents(samples: data.Samples) -> list[tuple[int, int]]:
    """Return the first pixel of every sample, from 0 to 255, and its label."""
    x, y = every(samples)
    return [(round(255 * float(image[0, 0, 0])), int(label)) for image, label in zip(x, y, strict=True)]


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


def every(samples: data.Samples) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return all inputs and labels."""
    return samples.batch(np.arange(len(samples)))


def quiet(name: str, done: int, total: int) -> None:
    pass


def png(value: int) -> bytes:
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.fromarray(np.full((28, 28), value, np.uint8)).save(stream, format="PNG")
    return stream.getvalue()


def parquet(rows: list[tuple[int, str, int]]) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = arrow.table(
        {
            "image": [{"bytes": png(value), "path": None} for value, _, _ in rows],
            "writer_id": [writer for _, writer, _ in rows],
            "hsf_id": [0] * len(rows),
            "character": [label for _, _, label in rows],
        }
    )
    stream = io.BytesIO()
    write_table(table, stream)
    return stream.getvalue()


def pixels(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, image: np.ndarray) -> np.ndarray:
    """Write a PNG whatever the name says, which keeps its pixels exact."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, format="PNG")
    return image
