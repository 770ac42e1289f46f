"""From a list of image files with labels and clients to a data set, decoded once into a cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prunefl.core.randomness import Ints
from prunefl.data import cache
from prunefl.data.decode import decode_once, header
from prunefl.data.federation import Source
from prunefl.data.partition import rows_by_group
from prunefl.data.samples import Images
from prunefl.data.transform import to_unit
from prunefl.system.errors import PruneFLError

HELD_OUT = 10
"""Where nobody named test data, every tenth sample of each client is held out."""

IN_FOLDERS = "move the images into train/, and add some as test/CLASS/*.png"
IN_ROWS = "mark some rows as test in a column split"


@dataclass(frozen=True)
class Listed:
    """One image file: its label, its client ("" where none is known), and "train" or "test"."""

    path: Path
    label: str
    client: str
    split: str


def source_from(
    name: str, listed: Sequence[Listed], folder: Path, cache_folder: Path | None, size: int
) -> Source:
    """Return the data set of these files, a client's images together.

    Args:
        size: side that images are resized to; 0 keeps them, and then they must all be alike.
    """
    if not listed:
        raise PruneFLError(f"data.dir={str(folder)!r}, lists no images, must have at least 1")
    ordered = sorted(listed, key=lambda entry: _natural(entry.client))
    files = [entry.path for entry in ordered]
    absent = next((path for path in files if not path.is_file()), None)
    if absent:
        raise PruneFLError(f"{absent}: no such image, though it is listed: add it, or take it off the list")
    names = label_names([entry.label for entry in ordered])
    labels = np.array([names[entry.label] for entry in ordered])
    clients = label_names([entry.client for entry in ordered if entry.split == "train"])
    client_of = np.array([clients.get(entry.client, 0) for entry in ordered])
    # where no client is known, classes take their place: the test set has some of each
    is_test = _tested(ordered, client_of if len(clients) > 1 else labels, folder, name)
    taught = set(labels[~is_test].tolist())
    refuse_untaught(folder, [label for label, i in names.items() if i not in taught])
    shape = _common_shape(files, size)
    key = cache.fingerprint(files, [str(path) for path in files], shape)
    whole = Images.whole(decode_once(name, key, files, shape, folder, cache_folder), labels, to_unit)
    known = list(clients) != [""]
    groups = (client_of[~is_test], "client", "client", 0) if known else (None, "client", "iid", 10)
    return Source(name, whole.take(~is_test), whole.take(is_test), len(names), shape, *groups)


def label_names(labels: Sequence[str]) -> dict[str, int]:
    """Return the class of each label: numbers in order of size, other names in alphabetical order."""
    return {label: i for i, label in enumerate(sorted(set(labels), key=_natural))}


def held_out(client_of: Ints, where: Path, remedy: str) -> NDArray[np.bool_]:
    """Return which samples are for testing: of each client's every tenth, but never all it has."""
    chosen = np.zeros(len(client_of), bool)
    for rows in rows_by_group(client_of):
        chosen[rows[HELD_OUT - 1 :: HELD_OUT]] = True
    if not chosen.any():
        raise PruneFLError(f"{where}: no test data, and too little to hold out every tenth sample: {remedy}")
    return chosen


def refuse_untaught(where: Path, names: Sequence[object]) -> None:
    """Refuse classes that only test samples have: none of them would ever be recognised."""
    if names:
        named = ", ".join(map(str, names[:5]))
        raise PruneFLError(f"{where}: class {named} only in the test data, must be in both (spelt alike?)")


def _tested(ordered: Sequence[Listed], groups: Ints, folder: Path, name: str) -> NDArray[np.bool_]:
    """Return which images are for testing: those that are named so, or else some of each group."""
    named = np.array([entry.split == "test" for entry in ordered])
    return named if named.any() else held_out(groups, folder, IN_ROWS if name == "csv" else IN_FOLDERS)


def _common_shape(files: Sequence[Path], size: int) -> tuple[int, int, int]:
    """Return (channels, height, width) of all images; unequal sizes need `data.size`."""
    headers = [header(path) for path in files]
    channels = max(shape[0] for shape in headers)
    if size:
        return channels, size, size
    for path, shape in zip(files, headers, strict=True):
        if shape[1:] != headers[0][1:]:
            first = f"{headers[0][1]}×{headers[0][2]}"
            raise PruneFLError(
                f"{path}: {shape[1]}×{shape[2]} pixels where {files[0].name} has {first}: set data.size"
            )
    return channels, *headers[0][1:]


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text.isdecimal() else (1, 0, text)
