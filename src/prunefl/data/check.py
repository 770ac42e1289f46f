"""What a data folder holds: which data set, what of it is missing, how clients would be cut."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

import numpy as np

from prunefl.data import imagenet100
from prunefl.data.celeba import ATTRIBUTES, IDENTITY
from prunefl.data.cifar10 import FILES
from prunefl.data.decode import is_image
from prunefl.data.federation import Federation
from prunefl.data.get import CIFAR10_ARCHIVE, MNIST_FILES, QMNIST_FILES
from prunefl.data.samples import labels_of
from prunefl.system.errors import PruneFLError

WNID = "n" + "[0-9]" * 8
WRITER_FILE = next(iter(QMNIST_FILES)).removesuffix(".gz")
UNFINISHED = {
    "mnist": "*-idx[1-3]-*.part",
    "femnist": "parquet/*.parquet*",
    "cifar10": f"{CIFAR10_ARCHIVE.name}*",
    "celeba": "img_align_celeba.zip*",
    "imagenet100": "ILSVRC2012_img_*.tar*",
}
"""Broken downloads, and archives that nobody has unpacked."""


@dataclass(frozen=True)
class Part:
    """One file or folder of a data set."""

    name: str
    there: bool
    detail: str = ""


@dataclass(frozen=True)
class Cut:
    """How the training samples lie with the clients.

    Attributes:
        labels: how many different labels a client has, where that is known: fewest, median, most.
    """

    clients: int
    fewest: int
    median: int
    most: int
    labels: tuple[int, int, int] | None


def parts_of(name: str, folder: Path) -> list[Part]:
    """Return the official files of a data set, each there or missing; an empty list for a user's own data."""
    return PARTS[name](folder) if name in PARTS else []


def recognise(folder: Path) -> str:
    """Return the name of the data set that the folder holds, whole or in part."""
    if folder.is_file() and folder.suffix == ".npz":
        return "npz"
    if (folder.is_file() and folder.suffix == ".csv") or (folder / "index.csv").is_file():
        return "csv"
    if not folder.is_dir():
        raise PruneFLError(f"{folder}: no such folder")
    official = {name: sum(part.there for part in parts(folder)) for name, parts in PARTS.items()}
    best = max(official, key=lambda name: official[name])
    if official[best]:
        return best
    for name, pattern in UNFINISHED.items():
        if any(folder.glob(pattern)):
            return name
    depth = _depth_of_images(folder)
    if depth in (1, 2):
        return "folder-per-class" if depth == 1 else "folder-per-client"
    raise PruneFLError(
        f"{folder}: no data set that prunefl knows: see `prunefl data get --help`, docs/data.md"
    )


def cut_of(federation: Federation) -> Cut:
    """Return how the samples are divided."""
    sizes = [len(client) for client in federation.clients]
    known = [labels for client in federation.clients if (labels := labels_of(client)) is not None]
    kinds = _spread([len(np.unique(labels)) for labels in known]) if len(known) == len(sizes) else None
    return Cut(len(sizes), *_spread(sizes), kinds)


def count_labels(federation: Federation) -> list[int] | None:
    """Return how many training samples each class has, or None where only reading every sample would tell."""
    known = [labels_of(client) for client in federation.clients]
    if any(labels is None for labels in known):
        return None
    counts = [np.bincount(labels, minlength=federation.classes) for labels in known if labels is not None]
    return [int(count) for count in np.sum(counts, axis=0)]


def _spread(counts: Sequence[int]) -> tuple[int, int, int]:
    """Return the fewest, the median (a count that occurs) and the most."""
    return min(counts), median_low(counts), max(counts)


def _mnist(folder: Path) -> list[Part]:
    names = [name.removesuffix(".gz") for name in (*MNIST_FILES, *QMNIST_FILES)]
    wanted = {WRITER_FILE: "who wrote each digit; only for partition writer"}
    return [
        Part(name, any((folder / f"{name}{end}").is_file() for end in ("", ".gz")), wanted.get(name, ""))
        for name in names
    ]


def _femnist(folder: Path) -> list[Part]:
    homes = [home for home in (folder, folder / "data") if (home / "train").is_dir()] or [folder]
    counts = {split: len(list((homes[0] / split).glob("*.json"))) for split in ("train", "test")}
    return [Part(f"{split}/*.json", count > 0, f"{count} files") for split, count in counts.items()]


def _cifar10(folder: Path) -> list[Part]:
    inner = folder / "cifar-10-batches-bin"
    home = inner if inner.is_dir() else folder
    return [Part(name, (home / name).is_file()) for names in FILES.values() for name in names]


def _imagenet100(folder: Path) -> list[Part]:
    homes = {
        split: next((home for home in imagenet100.places(folder, split) if home.is_dir()), folder / split)
        for split in ("train", "val")
    }
    counts = {split: len([p for p in home.glob(WNID) if p.is_dir()]) for split, home in homes.items()}
    detail = {split: f"{count} class folders" for split, count in counts.items()}
    flat = not counts["val"] and homes["val"].is_dir() and imagenet100.annotations(folder) is not None
    return [
        Part("train/", counts["train"] > 0, detail["train"]),
        Part("val/", counts["val"] > 0 or flat, imagenet100.ANNOTATIONS if flat else detail["val"]),
    ]


def _celeba(folder: Path) -> list[Part]:
    home = folder / "raw" if (folder / "raw").is_dir() else folder
    images = sum(1 for _ in (home / "img_align_celeba").glob("*.jpg"))
    faces = Part("img_align_celeba/", images > 0, f"{images} images")
    return [faces, *[Part(name, (home / name).is_file()) for name in (IDENTITY, ATTRIBUTES)]]


PARTS: Mapping[str, Callable[[Path], list[Part]]] = {
    "mnist": _mnist,
    "femnist": _femnist,
    "cifar10": _cifar10,
    "celeba": _celeba,
    "imagenet100": _imagenet100,
}


def _depth_of_images(folder: Path) -> int:
    """Return how many folders deep the first image lies below the folder (or its train/)."""
    home = folder / "train" if (folder / "train").is_dir() else folder
    for depth in (1, 2):
        if any(is_image(path) for path in home.glob("/".join(["*"] * (depth + 1)))):
            return depth
    return 0
