"""FEMNIST from Flower's parquet files to LEAF's JSON, a few writers at a time. pyarrow's one home."""

import json
import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from prunefl.data.decode import exactly_from
from prunefl.data.download import Progress

WRITERS_A_SHARD = 50
TRAIN_SHARE = 0.9
COLUMNS = ("image", "writer_id", "character")


def write_leaf(files: Sequence[Path], folder: Path, writers: int, progress: Progress) -> None:
    """Write train/ and test/ shards of some writers: nine tenths of each writer's images are for training.

    Args:
        writers: how many, drawn once and for all; 0 for all of them.
    """
    names = sorted({name for path in files for name in _column(path, "writer_id")})
    if writers > len(names):
        raise ValueError(f"--writers {writers}, must be <= {len(names)}, which is how many there are")
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(len(names), generator=generator)[: writers or len(names)].sort().values
    chosen = [names[i] for i in drawn.tolist()]
    for first in range(0, len(chosen), WRITERS_A_SHARD):
        shard = chosen[first : first + WRITERS_A_SHARD]
        progress("writing LEAF's folders", first + len(shard), len(chosen))
        _write_shard(_samples(files, shard), folder, first // WRITERS_A_SHARD, generator)


def _write_shard(
    samples: dict[str, list[tuple[Any, int]]], folder: Path, number: int, generator: torch.Generator
) -> None:
    """Write the writers' images into one train and one test file."""
    data: dict[str, dict[str, Any]] = {"train": {}, "test": {}}
    for user, pairs in samples.items():
        order = torch.randperm(len(pairs), generator=generator).tolist()
        cut = max(1, int(TRAIN_SHARE * len(pairs)))
        for split, part in (("train", order[:cut]), ("test", order[cut:])):
            if part:
                images = np.stack([pairs[i][0] for i in part]).reshape(-1, 784) / 255.0
                data[split][user] = {"x": images.round(6).tolist(), "y": [pairs[i][1] for i in part]}
    for split, users in data.items():
        counts = [len(entry["y"]) for entry in users.values()]
        text = json.dumps({"users": list(users), "num_samples": counts, "user_data": users})
        path = folder / split / f"all_data_{number}_niid_0_keep_0_{split}_9.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        part_file = path.with_suffix(".part")
        part_file.write_text(text)
        os.replace(part_file, path)


def _samples(files: Sequence[Path], shard: Sequence[str]) -> dict[str, list[tuple[Any, int]]]:
    """Return the images (uint8 (1, 28, 28)) and labels of each of these writers."""
    samples: dict[str, list[tuple[Any, int]]] = {user: [] for user in shard}
    decode = exactly_from(28, 28, 1)
    for path in files:
        for image, user, label in _rows(path):
            if user in samples:
                pixels = decode(BytesIO(image["bytes"]), f"{path}, an image of {user}")
                samples[user].append((pixels, int(label)))
    return samples


def _rows(path: Path) -> Iterator[tuple[Any, str, int]]:
    """Yield image, writer and label of each row."""
    with _opened(path) as file:
        for batch in file.iter_batches(columns=list(COLUMNS)):
            yield from zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)


def _column(path: Path, name: str) -> set[str]:
    """Return the different values of a column."""
    with _opened(path) as file:
        return set(file.read(columns=[name]).column(name).to_pylist())


def _opened(path: Path) -> Any:
    """Return an open parquet file that has the columns we need."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError("FEMNIST's parquet files need pyarrow: pip install 'prunefl[parquet]'") from error
    try:
        file = ParquetFile(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise ValueError(f"{path}: not a whole parquet file ({error}): delete it and get it again") from error
    absent = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if absent:
        raise ValueError(f"{path}: no column {absent[0]!r}, must have {', '.join(COLUMNS)}")
    return file
