"""From a list of image files with labels and clients to a data set, decoded once into a cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class ImageOptions:
    """How listed images become samples.

    Attributes:
        size: side that images are resized to; 0 keeps them, and then they must all be alike.
        shape: (channels, height, width) that was agreed on; () for that of the images.
        cache: where decoded images are kept.
    """

    size: int = 0
    shape: tuple[int, ...] = ()
    cache: Path | None = None


AS_THEY_ARE = ImageOptions()


def source_from(
    name: str, listed: Sequence[Listed], folder: Path, options: ImageOptions, hold_out: bool = True
) -> Source:
    """Return the data set of these files, a client's images together.

    Args:
        hold_out: whether some samples become the test set where none is named.
    """
    refuse_absent(listed, folder)
    ordered = sorted(listed, key=lambda entry: _natural(entry.client))
    names = label_names([entry.label for entry in ordered])
    labels = np.array([names[entry.label] for entry in ordered])
    clients = label_names([entry.client for entry in ordered if entry.split == "train"])
    client_of = np.array([clients.get(entry.client, 0) for entry in ordered])
    # where no client is known, classes take their place: the test set has some of each
    is_test = _tested(ordered, client_of if len(clients) > 1 else labels, folder, name, hold_out)
    taught = set(labels[~is_test].tolist())
    refuse_untaught(folder, [label for label, i in names.items() if i not in taught])
    shape = common_shape([entry.path for entry in ordered], options)
    whole = decoded_images(name, ordered, names, folder, replace(options, shape=shape))
    test = whole.take(is_test) if is_test.any() else None
    source = Source(
        name, whole.take(~is_test), test, len(names), shape, group_word="client", names=tuple(names)
    )
    if list(clients) == [""]:
        return source
    return replace(source, group_of=client_of[~is_test], partition="client", clients=0)


def refuse_absent(listed: Sequence[Listed], folder: Path) -> None:
    """Refuse a list of nothing, and files that are not there."""
    if not listed:
        raise PruneFLError(f"data.dir={str(folder)!r}, lists no images, must have at least 1")
    absent = next((entry.path for entry in listed if not entry.path.is_file()), None)
    if absent:
        raise PruneFLError(f"{absent}: no such image, though it is listed: add it, or take it off the list")


def decoded_images(
    name: str, listed: Sequence[Listed], numbers: Mapping[str, int], beside: Path, options: ImageOptions
) -> Images:
    """Return these images as samples of options.shape, each with the number of its label; decoded once."""
    files = [entry.path for entry in listed]
    labels = np.array([numbers[entry.label] for entry in listed])
    channels, height, width = options.shape
    shape = (channels, height, width)
    key = cache.fingerprint(files, [str(path) for path in files], shape)
    return Images.whole(decode_once(name, key, files, shape, beside, options.cache), labels, to_unit)


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


def _tested(
    ordered: Sequence[Listed], groups: Ints, folder: Path, name: str, hold_out: bool
) -> NDArray[np.bool_]:
    """Return which images are for testing: those that are named so, or else some of each group."""
    named = np.array([entry.split == "test" for entry in ordered])
    return (
        named
        if not hold_out or named.any()
        else held_out(groups, folder, IN_ROWS if name == "csv" else IN_FOLDERS)
    )


def common_shape(files: Sequence[Path], options: ImageOptions) -> tuple[int, ...]:
    """Return (channels, height, width) of all images, from their headers.

    Where a shape was agreed on, grey images may become coloured ones, which loses nothing, but never the other way.
    """
    headers = [header(path) for path in files]
    if options.shape:
        _refuse_others(files, headers, options)
        return options.shape
    channels = max(shape[0] for shape in headers)
    if options.size:
        return channels, options.size, options.size
    for path, shape in zip(files, headers, strict=True):
        if shape[1:] != headers[0][1:]:
            first = f"{headers[0][1]}×{headers[0][2]}"
            raise PruneFLError(
                f"{path}: {shape[1]}×{shape[2]} pixels where {files[0].name} has {first}: set data.size"
            )
    return channels, *headers[0][1:]


def _refuse_others(
    files: Sequence[Path], headers: Sequence[tuple[int, int, int]], options: ImageOptions
) -> None:
    """Refuse images that cannot be samples of the shape that was agreed on."""
    wanted, said = options.shape, f"data.shape={list(options.shape)}"
    if len(wanted) != 3 or wanted[0] not in (1, 3):
        raise PruneFLError(f"{said}, must be [1 or 3, height, width] for images")
    if options.size and wanted[1:] != (options.size, options.size):
        raise PruneFLError(f"data.size={options.size}, must be the height and width of {said}")
    for path, shape in zip(files, headers, strict=True):
        if shape[0] > wanted[0]:
            raise PruneFLError(f"{path}: in colour, but the run's samples are grey ({said}): make it grey")
        if not options.size and shape[1:] != wanted[1:]:
            raise PruneFLError(
                f"{path}: {shape[1]}×{shape[2]} pixels, but {said}: resize it, or let the run's config do so "
                f"by data.size={max(wanted[1:])}"
            )


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text.isdecimal() else (1, 0, text)
