"""Photographs of unequal sizes in one memory-mapped file, from which crops are cut batch by batch."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prunefl.core.randomness import Ints, Stream
from prunefl.data import cache
from prunefl.data.samples import Batch, Chosen, Normalise
from prunefl.data.transform import Floats, as_float
from prunefl.system.errors import PruneFLError

TRIES = 10

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Photos:
    """Rows of a shared store of photographs; batches are random-resized crops, or centre crops.

    Attributes:
        store: the pixels of all photographs one after another, uint8; each is (3, height, width).
        table: where each begins, its height and its width, int64 (photographs, 3).
        crop: side of the square that comes out.
    """

    store: Pixels = field(repr=False)
    table: Ints = field(repr=False)
    labels: Ints = field(repr=False)
    rows: Ints = field(repr=False)
    normalise: Normalise
    crop: int
    augmented: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return photographs (float32, (B, 3, crop, crop)) and labels (int64, (B,)); see Samples."""
        rows = self.rows[indices]
        if stream is None or not self.augmented:
            return self.normalise(np.stack([self._centre(i) for i in rows])), self.labels[rows]
        boxes = random_boxes(self.table[rows, 1:], stream)
        mirrored = stream.integers(2, (len(rows),)) == 1
        pixels = np.stack([self._resized(i, *box) for i, box in zip(rows, boxes, strict=True)])
        pixels[mirrored] = pixels[mirrored, ..., ::-1]
        return self.normalise(pixels), self.labels[rows]

    def take(self, chosen: Chosen) -> "Photos":
        """Return the data set made of these of its samples; the store is shared."""
        return replace(self, rows=self.rows[chosen])

    def plain(self) -> "Photos":
        """Return the same samples, never augmented."""
        return replace(self, augmented=False)

    def _photo(self, row: int) -> Pixels:
        """Return one photograph, uint8 (3, height, width), still memory-mapped."""
        start, height, width = self.table[row].tolist()
        return self.store[start : start + 3 * height * width].reshape(3, height, width)

    def _centre(self, row: int) -> Pixels:
        """Return the middle square."""
        photo = self._photo(row)
        top, left = (round((side - self.crop) / 2) for side in photo.shape[1:])
        return photo[:, top : top + self.crop, left : left + self.crop]

    def _resized(self, row: int, top: int, left: int, height: int, width: int) -> Pixels:
        """Return a box of the photograph, resized to the square, (3, crop, crop)."""
        # numpy cannot resize: the one use of torch in this room
        import torch
        from torch.nn.functional import interpolate

        box = torch.from_numpy(self._photo(row)[None, :, top : top + height, left : left + width].copy())
        return np.asarray(interpolate(box, (self.crop, self.crop), mode="bilinear", antialias=True)[0])


def random_boxes(
    sizes: Ints,
    stream: Stream,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Ints:
    """Return a box for each image: top, left, height, width; int64 (B, 4).

    Its share of the area is uniform and its aspect ratio log-uniform; of ten draws the first that fits is
    taken, and the largest middle box of an allowed aspect when none does (after Szegedy et al. 2015).

    Args:
        sizes: height and width of each image, int64 (B, 2).
    """
    draws, places = stream.uniform((2, len(sizes), TRIES)), stream.uniform((2, len(sizes)))
    area = as_float(sizes.prod(1, keepdims=True)) * (scale[0] + (scale[1] - scale[0]) * draws[0])
    exponent = log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * draws[1]
    # by way of float64: float32's last bit is not the same on every machine
    aspect = as_float(np.exp(exponent.astype(np.float64)))
    heights, widths = _whole(np.sqrt(area / aspect)), _whole(np.sqrt(area * aspect))
    fits = (heights >= 1) & (widths >= 1) & (heights <= sizes[:, :1]) & (widths <= sizes[:, 1:])
    which = np.arange(len(sizes)), fits.argmax(1)
    drawn = np.stack([heights[which], widths[which]], 1)
    free = sizes - drawn + 1
    corner = np.minimum((places.T * as_float(free)).astype(np.int64), free - 1)
    return np.where(fits.any(axis=1, keepdims=True), np.hstack([corner, drawn]), _middle_boxes(sizes, ratio))


def _middle_boxes(sizes: Ints, ratio: tuple[float, float]) -> Ints:
    """Return the largest box in the middle of each image whose aspect is allowed."""
    height, width = as_float(sizes).T
    box = np.minimum(sizes, np.stack([_whole(width / ratio[0]), _whole(height * ratio[1])], 1))
    return np.hstack([(sizes - box) // 2, box])


def _whole(sides: Floats) -> Ints:
    return np.round(sides).astype(np.int64)


def write_photos(folder: Path, name: str, photos: Iterable[Pixels]) -> None:
    """Write photographs, uint8 (3, height, width) each, as a store and its table into a cache folder."""
    table, start = [], 0
    with (folder / f"{name}.bin").open("wb") as store:
        for photo in photos:
            table.append((start, *photo.shape[1:]))
            store.write(photo.tobytes())
            start += photo.size
    np.save(folder / f"table_{name}.npy", np.array(table, np.int64).reshape(-1, 3))


def open_photos(folder: Path, name: str) -> tuple[Pixels, Ints]:
    """Return the store, memory-mapped, and its table."""
    path = folder / f"{name}.bin"
    table = np.array(cache.open_array(folder, f"table_{name}"))
    store = np.memmap(path, np.uint8, "r")
    if len(store) != int((3 * table[:, 1] * table[:, 2]).sum()):
        raise PruneFLError(f"cache file {str(path)!r} is damaged (wrong length): delete its folder")
    return store, table
