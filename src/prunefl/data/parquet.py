"""FEMNIST from Flower's parquet files to LEAF's JSON, a few writers at a time. pyarrow's one home."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from prunefl.core.randomness import Stream
from prunefl.data.decode import resized
from prunefl.data.download import Progress
from prunefl.system.errors import PruneFLError

WRITERS_A_SHARD = 50
TRAIN_SHARE = 0.9
COLUMNS = ("image", "writer_id", "character")
SPLITS = ("train", "test")


def write_leaf(files: Sequence[Path], folder: Path, writers: int, progress: Progress) -> None:
    """Write train/ and test/ shards of some writers: nine tenths of each writer's images are for training.

    Both folders are replaced once all is written: writers of an earlier call would otherwise be in both splits.

    Args:
        writers: how many, drawn once and for all; 0 for all of them.
    """
    names = sorted({name for path in files for name in _column(path, "writer_id")})
    if writers > len(names):
        raise PruneFLError(f"--writers {writers}, must be <= {len(names)}, which is how many there are")
    stream = Stream(0)
    chosen = [names[i] for i in sorted(stream.permutation(len(names), writers or None))]
    work = folder / "leaf.part"
    shutil.rmtree(work, ignore_errors=True)
    for split in SPLITS:
        (work / split).mkdir(parents=True)
    for first in range(0, len(chosen), WRITERS_A_SHARD):
        shard = chosen[first : first + WRITERS_A_SHARD]
        progress("writing LEAF's folders", first + len(shard), len(chosen))
        _write_shard(_samples(files, shard), work, first // WRITERS_A_SHARD, stream)
    _swap_in(work, folder)


def check_replaceable(folder: Path) -> None:
    """Refuse a folder whose train/ or test/ holds anything but LEAF's shards: it would be deleted."""
    for split in SPLITS:
        for path in (folder / split).glob("*"):
            if path.suffix not in (".json", ".part") and not path.name.startswith("."):
                raise PruneFLError(
                    f"{path}: not one of LEAF's files, which would replace it: choose another --dir"
                )


def _swap_in(work: Path, folder: Path) -> None:
    """Put the new train/ and test/ in the place of the old."""
    # both old ones go first: an interruption leaves a folder missing, never old beside new
    for split in SPLITS:
        if (folder / split).is_dir():
            os.rename(folder / split, work / f"old_{split}")
    for split in SPLITS:
        os.rename(work / split, folder / split)
    shutil.rmtree(work)


def _write_shard(
    samples: dict[str, list[tuple[Any, int]]], folder: Path, number: int, stream: Stream
) -> None:
    """Write the writers' images into one train and one test file."""
    data: dict[str, dict[str, Any]] = {split: {} for split in SPLITS}
    for user, pairs in samples.items():
        order = stream.permutation(len(pairs)).tolist()
        cut = max(1, int(TRAIN_SHARE * len(pairs)))
        for split, part in (("train", order[:cut]), ("test", order[cut:])):
            if part:
                images = np.stack([pairs[i][0] for i in part]).reshape(-1, 784) / 255.0
                data[split][user] = {"x": images.round(6).tolist(), "y": [pairs[i][1] for i in part]}
    for split, users in data.items():
        counts = [len(entry["y"]) for entry in users.values()]
        text = json.dumps({"users": list(users), "num_samples": counts, "user_data": users})
        (folder / split / f"all_data_{number}_niid_0_keep_0_{split}_9.json").write_text(text)


def _samples(files: Sequence[Path], shard: Sequence[str]) -> dict[str, list[tuple[Any, int]]]:
    """Return the images (uint8 (1, 28, 28)) and labels of each of these writers."""
    samples: dict[str, list[tuple[Any, int]]] = {user: [] for user in shard}
    for path in files:
        for image, user, label in _rows(path):
            if user in samples:
                pixels = resized(BytesIO(image["bytes"]), f"{path}, an image of {user}", (1, 28, 28))
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
        raise PruneFLError("FEMNIST's parquet files need pyarrow: pip install 'prunefl[parquet]'") from error
    try:
        file = ParquetFile(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise PruneFLError(
            f"{path}: not a whole parquet file ({error}): delete it and get it again"
        ) from error
    absent = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if absent:
        raise PruneFLError(f"{path}: no column {absent[0]!r}, must have {', '.join(COLUMNS)}")
    return file
