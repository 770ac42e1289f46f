"""Synthetic pictures for trying out segmentation: discs and squares on noise. They stand for no real data."""

from pathlib import Path

import numpy as np

from prunefl.core.randomness import lots
from prunefl.data.federation import Federation
from prunefl.data.samples import Tensors

SIZE, CLIENTS, EACH, TESTED = 32, 8, 60, 120
NOISE = 0.5


def discs_and_squares(folder: Path | None) -> Federation:
    """Return eight clients of sixty pictures of 32×32 pixels; each pixel is ground, disc or square."""
    clients = [draw(EACH, client) for client in range(CLIENTS)]
    names = ("ground", "disc", "square")
    test = draw(TESTED, CLIENTS)
    return Federation(clients, test, 3, (1, SIZE, SIZE), "shapes", f"{CLIENTS} clients, synthetic", names)


def draw(count: int, seed: int) -> Tensors:
    """Return so many pictures, float32 (count, 1, 32, 32), and their pixels' classes, int64 (count, 32, 32)."""
    source = lots("shapes", seed)
    places = source.integers(SIZE, (count, 2, 2))
    radii = 3 + source.integers(5, (count, 2))
    down, right = np.mgrid[:SIZE, :SIZE]
    classes = np.zeros((count, SIZE, SIZE), np.int64)
    for picture in range(count):
        (y, x), (v, u) = places[picture]
        disc, square = radii[picture]
        classes[picture][(down - y) ** 2 + (right - x) ** 2 <= disc**2] = 1
        classes[picture][(abs(down - v) <= square) & (abs(right - u) <= square)] = 2
    noise = source.normal(count * SIZE * SIZE).reshape(count, SIZE, SIZE)
    # a square is no brighter than a disc: its shape has to be seen
    return Tensors(((classes > 0) + NOISE * noise).astype(np.float32)[:, None], classes)
