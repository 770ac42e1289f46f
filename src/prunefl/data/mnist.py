"""MNIST's idx files, gzipped or not, with QMNIST's extended labels for who wrote each digit."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from prunefl.core.randomness import Ints
from prunefl.data.federation import Source
from prunefl.data.files import found, need_folder
from prunefl.data.samples import Images
from prunefl.data.transform import to_unit
from prunefl.system.errors import PruneFLError

ELEMENT = {0x08: ">u1", 0x0C: ">i4"}
WRITER_COLUMN = 2
WRITERS = "qmnist-train-labels-idx2-int"
AGAIN = "delete it and get it again"


def mnist(folder: Path | None, cache_folder: Path | None = None) -> Source:
    """Return all of MNIST; with writers where `qmnist-train-labels-idx2-int` is beside it."""
    folder = need_folder("mnist", folder)
    train, test = _images(folder, "train"), _images(folder, "t10k")
    writers = _writers(folder, len(train))
    return Source("mnist", train, test, 10, (1, 28, 28), writers, "writer", "iid", 10)


def read_idx(path: Path) -> Any:
    """Return the array of an idx file (uint8 or int32); a file cut short is refused."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise PruneFLError(f"{path}: not a whole gzip file ({error}): {AGAIN}") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in ELEMENT:
        raise PruneFLError(f"{path}: not an idx file of uint8 or int32: {AGAIN}")
    header = 4 + 4 * data[3]
    shape = struct.unpack_from(f">{data[3]}I", data, 4) if len(data) >= header else ()
    element = np.dtype(ELEMENT[data[2]])
    if not shape or len(data) != header + prod(shape) * element.itemsize:
        raise PruneFLError(f"{path}: {len(data)} bytes do not match its header, shape {shape}: {AGAIN}")
    return np.frombuffer(data, element, offset=header).reshape(shape)


def _images(folder: Path, split: str) -> Images:
    """Return the images and labels of a split."""
    image_file = _file(folder, f"{split}-images-idx3-ubyte")
    label_file = _file(folder, f"{split}-labels-idx1-ubyte")
    pixels, labels = read_idx(image_file), read_idx(label_file)
    if pixels.ndim != 3 or pixels.shape[1:] != (28, 28):
        raise PruneFLError(f"{image_file}: images of shape {pixels.shape[1:]}, must be (28, 28)")
    if len(pixels) != len(labels):
        raise PruneFLError(f"{label_file}: {len(labels)} labels for {len(pixels)} images, must be as many")
    return Images.whole(pixels[:, None], labels, to_unit)


def _writers(folder: Path, images: int) -> Ints | None:
    """Return the writer of each training image, counted from 0, or None where QMNIST's file is not there."""
    if not any((folder / f"{WRITERS}{end}").is_file() for end in ("", ".gz")):
        return None
    path = _file(folder, WRITERS)
    table = read_idx(path)
    if table.shape != (images, 8):
        raise PruneFLError(f"{path}: shape {table.shape}, must be ({images}, 8), a row for each image")
    return np.unique(table[:, WRITER_COLUMN], return_inverse=True)[1]


def _file(folder: Path, name: str) -> Path:
    """Return the path of a file, plain or else gzipped."""
    zipped = folder / f"{name}.gz"
    return zipped if zipped.is_file() and not (folder / name).is_file() else found("mnist", folder, name)
