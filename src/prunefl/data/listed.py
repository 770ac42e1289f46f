"""From a list of image files with labels and clients to a data set, decoded once into a cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from prunefl.data import cache
from prunefl.data.decode import decode_all, exactly, header
from prunefl.data.federation import Source
from prunefl.data.samples import Images
from prunefl.data.transform import to_unit

HELD_OUT = 10
"""Where nobody named test data, every tenth sample of each client is held out."""


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
        raise ValueError(f"data.dir={str(folder)!r}, lists no images, must have at least 1")
    ordered = sorted(listed, key=lambda entry: _natural(entry.client))
    files = [entry.path for entry in ordered]
    absent = next((path for path in files if not path.is_file()), None)
    if absent:
        raise ValueError(f"{absent}: no such image, though it is listed: add it, or take it off the list")
    shape = _common_shape(files, size)
    key = cache.fingerprint(files, [str(path) for path in files], shape)
    built = cache.cached(
        name, key, lambda work: _build(work, files, shape), beside=folder, folder=cache_folder
    )
    names = label_names([entry.label for entry in ordered])
    labels = torch.tensor([names[entry.label] for entry in ordered])
    whole = Images(cache.open_array(built, "pixels"), labels, torch.arange(len(labels)), to_unit)
    return _split(name, whole, ordered, len(names), shape)


def label_names(labels: Sequence[str]) -> dict[str, int]:
    """Return the class of each label: numbers in order of size, other names in alphabetical order."""
    return {label: i for i, label in enumerate(sorted(set(labels), key=_natural))}


def held_out(client_of: Tensor) -> Tensor:
    """Return which samples are for testing: of each client's every tenth, but never all it has."""
    position = torch.zeros_like(client_of)
    for rows in torch.split(client_of.argsort(stable=True), torch.bincount(client_of).tolist()):
        position[rows] = torch.arange(len(rows))
    return position % HELD_OUT == HELD_OUT - 1


def _split(
    name: str, whole: Images, ordered: Sequence[Listed], classes: int, shape: tuple[int, int, int]
) -> Source:
    """Return the data set with its training and test part."""
    clients = label_names([entry.client for entry in ordered if entry.split == "train"])
    is_test = torch.tensor([entry.split == "test" for entry in ordered])
    client_of = torch.tensor([clients.get(entry.client, 0) for entry in ordered])
    if not bool(is_test.any()):
        # where no client is known, classes take their place: the test set has some of each
        is_test = held_out(client_of if len(clients) > 1 else whole.labels)
    train_rows, test_rows = torch.nonzero(~is_test).flatten(), torch.nonzero(is_test).flatten()
    known = list(clients) != [""]
    return Source(
        name,
        whole.take(train_rows),
        whole.take(test_rows),
        classes,
        shape,
        client_of[train_rows] if known else None,
        "client",
        "client" if known else "iid",
        0 if known else 10,
    )


def _common_shape(files: Sequence[Path], size: int) -> tuple[int, int, int]:
    """Return (channels, height, width) of all images; unequal sizes need `data.size`."""
    headers = [header(path) for path in files]
    channels = max(shape[0] for shape in headers)
    if size:
        return channels, size, size
    for path, shape in zip(files, headers, strict=True):
        if shape[1:] != headers[0][1:]:
            first = f"{headers[0][1]}×{headers[0][2]}"
            raise ValueError(
                f"{path}: {shape[1]}×{shape[2]} pixels where {files[0].name} has {first}: set data.size"
            )
    return channels, *headers[0][1:]


def _build(folder: Path, files: Sequence[Path], shape: tuple[int, int, int]) -> None:
    """Decode every image once."""
    channels, height, width = shape
    pixels = cache.create_array(folder, "pixels", (len(files), *shape))
    for i, image in enumerate(decode_all(files, exactly(height, width, channels))):
        pixels[i] = image
    pixels.flush()


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text.isdecimal() else (1, 0, text)
