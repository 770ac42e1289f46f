"""CIFAR-10's binary files: a byte of label and 3,072 of pixels, again and again."""

from pathlib import Path
from statistics import mode

import numpy as np

from prunefl.data import cache
from prunefl.data.federation import Source
from prunefl.data.files import found, need_folder
from prunefl.data.samples import Images
from prunefl.data.transform import FlipAndCrop, Standardise
from prunefl.system.errors import PruneFLError

RECORD = 1 + 3 * 32 * 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
FILES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}


def cifar10(folder: Path | None, cache_folder: Path | None = None) -> Source:
    """Return all of CIFAR-10; training images are mirrored and shifted (32, pad 4)."""
    folder = need_folder("cifar10", folder)
    files = whole_files(folder)
    key = cache.fingerprint(files["train"] + files["test"])
    built = cache.cached("cifar10", key, lambda to: _build(to, files), beside=folder, folder=cache_folder)
    normalise, augment = Standardise(MEAN, STD), FlipAndCrop(4)
    train, test = (Images.whole(*cache.open_split(built, split), normalise, augment) for split in FILES)
    return Source("cifar10", train, test.plain(), 10, (3, 32, 32), partition="iid", clients=10)


def whole_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split; one that is missing, cut short or too long is refused."""
    inner = folder / "cifar-10-batches-bin"
    home = inner if inner.is_dir() else folder
    files = {split: [found("cifar10", home, name) for name in names] for split, names in FILES.items()}
    sizes = {path: path.stat().st_size for paths in files.values() for path in paths}
    # the six official ones are equally long: what most of them are is right
    possible = [size for size in sizes.values() if size and size % RECORD == 0]
    right = mode(possible) if possible else f"a multiple of {RECORD}"
    for path, size in sizes.items():
        if size != right:
            raise PruneFLError(f"{path}: {size} bytes, must be {right}: get it again")
    return files


def _build(folder: Path, files: dict[str, list[Path]]) -> None:
    """Write the batches as one array a split."""
    for split, paths in files.items():
        records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, RECORD) for path in paths])
        np.save(folder / f"labels_{split}.npy", records[:, 0].astype(np.int64))
        np.save(folder / f"pixels_{split}.npy", records[:, 1:].reshape(-1, 3, 32, 32))
