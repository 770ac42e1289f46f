"""A user's own arrays: a NumPy .npz file with inputs, labels and, if there are any, clients."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from prunefl.core.randomness import Ints
from prunefl.data.federation import Source
from prunefl.data.listed import held_out, refuse_untaught
from prunefl.data.samples import Images, Normalise
from prunefl.data.transform import as_float, to_unit
from prunefl.system.errors import PruneFLError


def npz(file: Path | None, hold_out: bool = True) -> Source:
    """Return the data of an .npz file: x_train, y_train and, if you like, client_train, x_test, y_test.

    Inputs are uint8 (scaled to 0..1) or float (taken as they are), shape (samples, ...); images without a
    channel axis are given one. Without test arrays every tenth sample is held out.
    """
    if file is None or not file.is_file():
        raise PruneFLError(f"data.dir={str(file or '')!r}, must be an .npz file")
    arrays = _read(file)
    train, test = _images(file, arrays, "train"), None
    group_of = _clients(file, arrays, len(train))
    classes = _classes(file, train.labels)
    if "x_test" in arrays or "y_test" in arrays:
        test = _images(file, arrays, "test")
        _refuse_two_scales(file, arrays)
        if test.pixels.shape[1:] != train.pixels.shape[1:]:
            raise PruneFLError(
                f"{file}: x_test is {test.pixels.shape}, must match x_train's {train.pixels.shape}"
            )
    elif hold_out:
        groups = train.labels if group_of is None else group_of
        is_test = held_out(groups, file, "add the arrays x_test and y_test")
        train, test = train.take(~is_test), train.take(is_test)
        group_of = None if group_of is None else group_of[train.rows]
    if test is not None:
        taught, tested = (split.labels[split.rows] for split in (train, test))
        refuse_untaught(file, np.setdiff1d(tested, taught).tolist())
    kind = ("client", "client", 0) if group_of is not None else ("", "iid", 10)
    return Source("npz", train, test, classes, tuple(train.pixels.shape[1:]), group_of, *kind)


def npz_split(file: Path, split: str) -> tuple[Images, tuple[str, ...]]:
    """Return all samples of x_SPLIT and y_SPLIT and the names of their labels: the numbers that occur in y_SPLIT."""
    images = _images(file, _read(file), split)
    held, labels = np.unique(images.labels, return_inverse=True)
    return replace(images, labels=labels), tuple(map(str, held.tolist()))


def npz_has(file: Path, split: str) -> bool:
    """Return whether the file has inputs of this split."""
    return f"x_{split}" in _read(file)


def _classes(file: Path, labels: Ints) -> int:
    """Return how many classes there are; each must have a sample."""
    held = np.unique(labels).tolist()
    gap = next((i for i, label in enumerate(held) if i != label), None)
    if gap is not None:
        raise PruneFLError(
            f"{file}: y_train has {held[gap]} but no {gap}, must count the classes from 0 without gaps"
        )
    return len(held)


def _read(file: Path) -> dict[str, Any]:
    """Return the arrays of the file; objects, which would be unpickled, are refused."""
    try:
        # opened here: numpy does not close a file that turns out to be no archive
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    # what a damaged archive raises is up to numpy, zipfile and zlib
    except Exception as error:
        raise PruneFLError(
            f"{file}: not a whole .npz file of plain arrays ({error}): write it again"
        ) from error


def _images(file: Path, arrays: dict[str, Any], split: str) -> Images:
    """Return inputs and labels of a split."""
    absent = next((f"{kind}_{split}" for kind in "xy" if f"{kind}_{split}" not in arrays), None)
    if absent:
        raise PruneFLError(f"{file}: no array {absent}, must have x_train and y_train (and x_test, y_test)")
    inputs, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    if inputs.ndim < 2 or not inputs.size:
        raise PruneFLError(
            f"{file}: x_{split} has the shape {inputs.shape}, must be (samples, ...), none of them 0"
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(inputs):
        given = f"{labels.dtype} {labels.shape}"
        raise PruneFLError(f"{file}: y_{split} is {given}, must be {len(inputs)} whole numbers, one a sample")
    if inputs.ndim == 3:
        inputs = inputs[:, None]
    return Images.whole(inputs, labels, _normaliser(file, split, inputs))


def _refuse_two_scales(file: Path, arrays: dict[str, Any]) -> None:
    """Refuse pixels from 0 to 255 beside numbers that stay as they are."""
    train, test = arrays["x_train"].dtype, arrays["x_test"].dtype
    if (train == np.uint8) != (test == np.uint8):
        raise PruneFLError(f"{file}: x_train is {train} and x_test {test}, must be both uint8 or both float")


def _normaliser(file: Path, split: str, inputs: Any) -> Normalise:
    """Return how stored inputs become float32."""
    if inputs.dtype == np.uint8:
        return to_unit
    if inputs.dtype.kind != "f":
        raise PruneFLError(f"{file}: x_{split} is {inputs.dtype}, must be uint8 or float")
    if not np.isfinite(inputs).all():
        raise PruneFLError(f"{file}: x_{split} has a value that is not finite, must have none")
    return as_float


def _clients(file: Path, arrays: dict[str, Any], samples: int) -> Ints | None:
    """Return the client of each training sample, counted from 0 in order of their names, or None."""
    if "client_train" not in arrays:
        return None
    clients = arrays["client_train"]
    if clients.shape != (samples,):
        raise PruneFLError(f"{file}: client_train is {clients.shape}, must be ({samples},), one a sample")
    return np.unique(clients, return_inverse=True)[1]
