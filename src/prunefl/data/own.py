"""A user's own images: a folder per client, a folder per class, or a CSV index."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from prunefl.data.decode import is_image
from prunefl.data.federation import Source
from prunefl.data.listed import ImageOptions, Listed, label_names, source_from
from prunefl.system.errors import PruneFLError

COLUMNS = ("file", "label")


def folder_per_class(folder: Path | None, options: ImageOptions, hold_out: bool = True) -> Source:
    """Return the images of `CLASS/*`, or of `train/CLASS/*` and `test/CLASS/*`; cut by a drawn partition."""
    folder = need_folder(folder)
    return source_from("folder-per-class", list_classes(folder), folder, options, hold_out)


def folder_per_client(folder: Path | None, options: ImageOptions, hold_out: bool = False) -> Source:
    """Return the images of `CLIENT/CLASS/*`, or of `train/CLIENT/CLASS/*` and `test/CLASS/*`, all in one."""
    folder = need_folder(folder)
    clients, test = list_clients(folder)
    listed = [entry for entries in clients.values() for entry in entries] + test
    return source_from("folder-per-client", listed, folder, options, hold_out=False)


def csv_index(file: Path | None, options: ImageOptions, hold_out: bool = True) -> Source:
    """Return the images that a CSV file lists: columns file, label and, if you like, client and split.

    Args:
        file: the CSV file, or a folder with `index.csv`; image files are named from where it lies.
    """
    path = index_file(file)
    return source_from("csv", list_rows(path), path.parent, options, hold_out)


def list_classes(folder: Path) -> list[Listed]:
    """Return the images of `CLASS/*`, or of `train/CLASS/*` and `test/CLASS/*`."""
    splits = _splits(folder)
    listed = [entry for split, home in splits for entry in _classes(home, "", split)]
    _refuse_empty(_folders(splits[0][1], "class"), listed)
    return listed


def list_clients(folder: Path) -> tuple[dict[str, list[Listed]], list[Listed]]:
    """Return the images of each client of `CLIENT/CLASS/*` or `train/CLIENT/CLASS/*`, and those of `test/CLASS/*`."""
    clients: dict[str, list[Listed]] = {}
    test: list[Listed] = []
    for split, home in _splits(folder):
        if split == "test":
            test += _classes(home, "", split)
            continue
        for client in _folders(home, "client"):
            clients[client.name] = _classes(client, client.name, split)
            _refuse_empty(_folders(client, "class"), clients[client.name])
    return {name: clients[name] for name in label_names(list(clients))}, test


def list_rows(path: Path) -> list[Listed]:
    """Return the images that a CSV file lists."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return _read(path, csv.DictReader(lines))
    except (UnicodeDecodeError, csv.Error) as error:
        raise PruneFLError(f"{path}: not a CSV file in UTF-8 ({error}): save it again as one") from error


def _read(path: Path, reader: "csv.DictReader[str]") -> list[Listed]:
    """Return the rows of a CSV index."""
    absent = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if absent:
        raise PruneFLError(f"{path}: no column {absent[0]!r}, must have file and label (and client, split)")
    return [_listed(path, reader.line_num, row) for row in reader]


def index_file(file: Path | None) -> Path:
    """Return the CSV file, which must exist."""
    if file is None:
        raise PruneFLError("data.dir is not set, must be a CSV file or a folder with index.csv")
    path = file / "index.csv" if file.is_dir() else file
    if not path.is_file():
        raise PruneFLError(f"data.dir={str(file)!r}, no such CSV file")
    return path


def _listed(path: Path, line: int, row: dict[str, str | None]) -> Listed:
    """Return one row of a CSV index."""
    name, label = row["file"], row["label"]
    split = row.get("split") or "train"
    if not name or not label:
        raise PruneFLError(f"{path}, line {line}: empty file or label, must have both")
    if split not in ("train", "test"):
        raise PruneFLError(f"{path}, line {line}: split={split!r}, must be train or test")
    if "client" in row and not row["client"] and split == "train":
        raise PruneFLError(f"{path}, line {line}: empty client, must name one")
    return Listed(path.parent / name, label, row.get("client") or "", split)


def need_folder(folder: Path | None) -> Path:
    """Return the data folder, which must exist."""
    if folder is None or not folder.is_dir():
        raise PruneFLError(
            f"data.dir={str(folder or '')!r}, must be the folder of your images: see docs/data.md"
        )
    return folder


def _splits(folder: Path) -> list[tuple[str, Path]]:
    """Return train/ and test/ where both are there, and else the folder itself for training."""
    parts = [(split, folder / split) for split in ("train", "test")]
    there = [home.is_dir() for _, home in parts]
    if any(there) and not all(there):
        raise PruneFLError(
            f"data.dir={str(folder)!r}, has only one of train/ and test/, must have both or neither"
        )
    return parts if all(there) else [("train", folder)]


def _folders(home: Path, what: str) -> list[Path]:
    """Return the folders inside, in order; hidden ones are not data."""
    inside = sorted(path for path in home.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise PruneFLError(f"{home}: no folders, must have one per {what}")
    return inside


def _classes(home: Path, client: str, split: str) -> list[Listed]:
    """Return the images of `CLASS/*`, of which there must be some."""
    listed = [
        Listed(path, folder.name, client, split)
        for folder in _folders(home, "class")
        for path in sorted(folder.iterdir())
        if is_image(path)
    ]
    if not listed:
        whose = f"client {client!r} has 0 images" if client else "no images in its class folders"
        raise PruneFLError(f"{home}: {whose}, must have at least 1, as {home.name}/CLASS/*.png")
    return listed


def _refuse_empty(folders: Iterable[Path], listed: Sequence[Listed]) -> None:
    """Refuse a class that has a folder and no images: the classes after it would be counted otherwise."""
    held = {entry.label for entry in listed if entry.split == "train"}
    empty = next((folder for folder in folders if folder.name not in held), None)
    if empty:
        raise PruneFLError(f"{empty}: no images of this class to train on: add some, or delete the folder")
