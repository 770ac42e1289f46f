"""Photographs of unequal sizes in one memory-mapped file, from which crops are cut batch by batch."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from prunefl.data import cache
from prunefl.data.samples import Normalise

TRIES = 10


@dataclass(frozen=True)
class Photos:
    """Rows of a shared store of photographs; batches are random-resized crops, or centre crops.

    Attributes:
        store: the pixels of all photographs one after another, uint8; each is (3, height, width).
        table: where each begins, its height and its width, int64 (photographs, 3).
        crop: side of the square that comes out.
    """

    store: npt.NDArray[np.uint8] = field(repr=False)
    table: npt.NDArray[np.int64] = field(repr=False)
    labels: Tensor = field(repr=False)
    rows: Tensor = field(repr=False)
    normalise: Normalise
    crop: int
    augmented: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return photographs (float32, (B, 3, crop, crop)) and labels (int64, (B,)); see Samples."""
        rows = self.rows[indices]
        if generator is None or not self.augmented:
            return self.normalise(torch.stack([self._centre(i) for i in rows.tolist()])), self.labels[rows]
        sizes = torch.from_numpy(self.table[rows.numpy(), 1:])
        boxes = random_boxes(sizes, generator)
        mirrored = torch.randint(2, (len(rows), 1, 1, 1), generator=generator).bool()
        cut = [self._cut(i, *box) for i, box in zip(rows.tolist(), boxes.tolist(), strict=True)]
        pixels = torch.cat(cut)
        return self.normalise(torch.where(mirrored, pixels.flip(3), pixels)), self.labels[rows]

    def take(self, chosen: Tensor) -> "Photos":
        """Return the data set made of these of its samples; the store is shared."""
        return replace(self, rows=self.rows[chosen])

    def plain(self) -> "Photos":
        """Return the same samples, never augmented."""
        return replace(self, augmented=False)

    def _photo(self, row: int) -> Any:
        """Return one photograph, uint8 (3, height, width), still memory-mapped."""
        start, height, width = self.table[row].tolist()
        return self.store[start : start + 3 * height * width].reshape(3, height, width)

    def _centre(self, row: int) -> Tensor:
        """Return the middle square."""
        photo = self._photo(row)
        top, left = (round((side - self.crop) / 2) for side in photo.shape[1:])
        return torch.from_numpy(photo[:, top : top + self.crop, left : left + self.crop].copy())

    def _cut(self, row: int, top: int, left: int, height: int, width: int) -> Tensor:
        """Return a box of the photograph, resized to the square, (1, 3, crop, crop)."""
        box = torch.from_numpy(self._photo(row)[None, :, top : top + height, left : left + width].copy())
        return functional.interpolate(box, (self.crop, self.crop), mode="bilinear", antialias=True)


def random_boxes(
    sizes: Tensor,
    generator: torch.Generator,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Return a box for each image: top, left, height, width; int64 (B, 4).

    Its share of the area is uniform and its aspect ratio log-uniform; of ten draws the first that fits is
    taken, and the largest middle box of an allowed aspect when none does (after Szegedy et al. 2015).

    Args:
        sizes: height and width of each image, int64 (B, 2).
    """
    draws = torch.rand(2, len(sizes), TRIES, generator=generator)
    places = torch.rand(2, len(sizes), generator=generator)
    area = sizes.prod(1, keepdim=True) * (scale[0] + (scale[1] - scale[0]) * draws[0])
    aspect = torch.exp(log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * draws[1])
    heights, widths = (area / aspect).sqrt().round().long(), (area * aspect).sqrt().round().long()
    fits = (heights >= 1) & (widths >= 1) & (heights <= sizes[:, :1]) & (widths <= sizes[:, 1:])
    first = fits.int().argmax(1, keepdim=True)
    drawn = torch.cat([heights.gather(1, first), widths.gather(1, first)], 1)
    free = sizes - drawn + 1
    corner = (places.T * free).long().minimum(free - 1)
    middle = _middle_boxes(sizes, ratio)
    return torch.where(fits.any(1, keepdim=True), torch.cat([corner, drawn], 1), middle)


def _middle_boxes(sizes: Tensor, ratio: tuple[float, float]) -> Tensor:
    """Return the largest box in the middle of each image whose aspect is allowed."""
    height, width = sizes[:, 0], sizes[:, 1]
    box = torch.stack(
        [
            torch.minimum(height, (width / ratio[0]).round().long()),
            torch.minimum(width, (height * ratio[1]).round().long()),
        ],
        1,
    )
    return torch.cat([(sizes - box) // 2, box], 1)


def write_photos(folder: Path, name: str, photos: Iterable[Any]) -> None:
    """Write photographs, uint8 (3, height, width) each, as a store and its table into a cache folder."""
    table, start = [], 0
    with (folder / f"{name}.bin").open("wb") as store:
        for photo in photos:
            table.append((start, *photo.shape[1:]))
            store.write(photo.tobytes())
            start += photo.size
    np.save(folder / f"table_{name}.npy", np.array(table, np.int64).reshape(-1, 3))


def open_photos(folder: Path, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the store, memory-mapped, and its table."""
    path = folder / f"{name}.bin"
    table = np.array(cache.open_array(folder, f"table_{name}"))
    store = np.memmap(path, np.uint8, "r")
    if len(store) != int((3 * table[:, 1] * table[:, 2]).sum()):
        raise ValueError(f"cache file {str(path)!r} is damaged (wrong length): delete its folder")
    return store, table
