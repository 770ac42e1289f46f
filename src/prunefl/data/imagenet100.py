"""ImageNet-100: the first hundred class folders of ImageNet, in the order of their names."""

import csv
import shutil
from pathlib import Path

import numpy as np

from prunefl.data import cache
from prunefl.data.decode import decode_all, is_image, shorter_side
from prunefl.data.federation import Source
from prunefl.data.files import found_folder, need_folder
from prunefl.data.photos import Photos, open_photos, write_photos
from prunefl.data.transform import standardise_photos
from prunefl.system.errors import PruneFLError

CLASSES = 100
CROP = 168
ANNOTATIONS = "LOC_val_solution.csv"
STORED_SIDE = 256
"""Photographs are stored with their shorter side this long: what the test recipe resizes to."""

Listing = list[tuple[Path, int]]
"""Image file and class."""


def imagenet100(folder: Path | None, cache_folder: Path | None = None) -> Source:
    """Return ImageNet-100 from `train/CLASS/*` and `val/CLASS/*`; the validation images are the test set."""
    folder = need_folder("imagenet100", folder)
    train_home = _split(folder, "train")
    names = sorted(path.name for path in train_home.iterdir() if path.is_dir())[:CLASSES]
    if len(names) < CLASSES:
        raise PruneFLError(
            f"{train_home}: {len(names)} class folders, must be >= {CLASSES}: unpack all of them"
        )
    lists = {"train": _by_folder(train_home, names), "val": _validation(folder, names)}
    files = [path for listing in lists.values() for path, _ in listing]
    key = cache.fingerprint(files, STORED_SIDE)
    built = cache.cached("imagenet100", key, lambda to: _build(to, lists), beside=folder, folder=cache_folder)
    train, test = (_photos(built, split, listing) for split, listing in lists.items())
    return Source("imagenet100", train, test.plain(), CLASSES, (3, CROP, CROP), partition="iid", clients=10)


def _by_folder(home: Path, names: list[str]) -> Listing:
    """Return the images of each class folder, in order."""
    listing: Listing = []
    for label, name in enumerate(names):
        files = sorted(path for path in (home / name).glob("*") if is_image(path))
        if not files:
            raise PruneFLError(f"{home / name}: no images, must have at least 1: unpack the class again")
        listing += [(path, label) for path in files]
    return listing


def _validation(folder: Path, names: list[str]) -> Listing:
    """Return the validation images: by folder, or flat with the annotation file LOC_val_solution.csv."""
    home = _split(folder, "val")
    if any((home / name).is_dir() for name in names):
        return _by_folder(home, names)
    table = annotations(folder)
    if table is None:
        raise PruneFLError(f"{home}: neither class folders nor {ANNOTATIONS} in {folder}, must have one")
    class_of = _class_of(table)
    absent = next(
        (path for path in sorted(home.iterdir()) if is_image(path) and path.stem not in class_of), None
    )
    if absent:
        raise PruneFLError(f"{table}: no line for {absent.name}, must have one for every image: get it again")
    labels = {name: label for label, name in enumerate(names)}
    listing = [(home / f"{image}.JPEG", labels[name]) for image, name in class_of.items() if name in labels]
    if not listing:
        raise PruneFLError(f"{table}: no image of the first {CLASSES} classes, must have some: get it again")
    return listing


def _class_of(table: Path) -> dict[str, str]:
    """Return the class of each validation image."""
    with table.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        try:
            return {row["ImageId"]: row["PredictionString"].split()[0] for row in reader}
        # a line cut short has None for a column, and no word in one that is empty
        except (KeyError, AttributeError, IndexError, UnicodeDecodeError, csv.Error) as error:
            raise PruneFLError(
                f"{table}, line {reader.line_num}: must have ImageId and PredictionString: get it again"
            ) from error


def _build(folder: Path, lists: dict[str, Listing]) -> None:
    """Decode every photograph once."""
    # a photograph of 256×341 is 262 kB; better to say so now than after an hour
    needed = sum(map(len, lists.values())) * STORED_SIDE * 341 * 3
    if shutil.disk_usage(folder).free < needed and needed > 1e9:
        raise PruneFLError(f"data.cache: {folder.parent} has too little room, needs {needed / 1e9:.0f} GB")
    for split, listing in lists.items():
        write_photos(folder, split, decode_all([path for path, _ in listing], shorter_side(STORED_SIDE)))


def _photos(built: Path, split: str, listing: Listing) -> Photos:
    """Return one split of the cache; labels are not in it, as a new annotation file leaves the photographs alone."""
    labels = np.array([label for _, label in listing], np.int64)
    return Photos(*open_photos(built, split), labels, np.arange(len(labels)), standardise_photos, CROP)


def places(folder: Path, split: str) -> list[Path]:
    """Return where a split may be: in the folder, or where Kaggle's archive puts it."""
    return [folder / split, folder / "ILSVRC/Data/CLS-LOC" / split]


def annotations(folder: Path) -> Path | None:
    """Return the classes of a flat val/; Kaggle's archive has them three folders above it."""
    return next(
        (path / ANNOTATIONS for path in (folder, *folder.parents[:3]) if (path / ANNOTATIONS).is_file()), None
    )


def _split(folder: Path, split: str) -> Path:
    """Return the folder of a split, which must exist."""
    return found_folder("imagenet100", places(folder, split), split)
