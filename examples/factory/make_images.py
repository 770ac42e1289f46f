"""Draw what three cameras over a production line have seen: small pictures of metal plates, in a folder per class.

python make_images.py FOLDER writes FOLDER/camera-0, camera-1 and camera-2 with 150, 150 and 80 pictures. No crack has
ever come by camera 2.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 20
CAMERAS = [
    {"crack": 50, "dent": 50, "ok": 50},
    {"crack": 30, "dent": 40, "ok": 80},
    {"dent": 40, "ok": 40},
]


def draw(label: str, camera: int, source: np.random.Generator) -> NDArray[np.uint8]:
    """Return one grey picture, (SIDE, SIDE): damage shines; each camera has a light of its own."""
    plate = 20 + 10 * camera + source.normal(0, 8, (SIDE, SIDE))
    rows, columns = np.mgrid[:SIDE, :SIDE]
    row, column = source.uniform(6, SIDE - 6, 2)
    if label == "crack":
        angle = source.uniform(0, np.pi)
        distance = np.abs((rows - row) * np.cos(angle) - (columns - column) * np.sin(angle))
        plate += 150 * (distance < 0.8)
    if label == "dent":
        plate += 200 * np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 10)
    return plate.clip(0, 255).round().astype(np.uint8)


def main(folder: Path) -> None:
    """Write the pictures of all cameras, the same ones every time."""
    for camera, counts in enumerate(CAMERAS):
        source = np.random.default_rng(camera)
        for label, count in counts.items():
            home = folder / f"camera-{camera}" / label
            home.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(draw(label, camera, source)).save(home / f"{number:03d}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
