"""From stored pixels to network input, a whole batch at a time and from given random numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from prunefl.core.randomness import Stream

Floats = NDArray[np.float32]


def as_float(values: NDArray[Any]) -> Floats:
    """Return float32."""
    return values.astype(np.float32, copy=False)


def to_unit(pixels: NDArray[np.uint8]) -> Floats:
    """Return uint8 0..255 as float32 0..1."""
    values = pixels.astype(np.float32)
    values /= 255
    return values


def to_inverted_unit(pixels: NDArray[np.uint8]) -> Floats:
    """Return 1 − x: LEAF's ink is dark on white, and the network should see ink."""
    unit = to_unit(pixels)
    return np.subtract(np.float32(1), unit, out=unit)


@dataclass(frozen=True)
class Standardise:
    """(x / 255 − mean) / std, channel by channel."""

    mean: Sequence[float]
    std: Sequence[float]

    def __call__(self, pixels: NDArray[np.uint8]) -> Floats:
        """Return float32, the shape of the pixels."""
        mean, std = (np.array(value, np.float32).reshape(-1, 1, 1) for value in (self.mean, self.std))
        values = to_unit(pixels)
        values -= mean
        values /= std
        return values


standardise_photos = Standardise(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
"""By ImageNet's mean and deviation, as is the custom for photographs."""


@dataclass(frozen=True)
class FlipAndCrop:
    """Mirror half of the images and shift each within a black border of `pad` pixels."""

    pad: int

    def __call__(self, pixels: NDArray[np.uint8], stream: Stream) -> NDArray[np.uint8]:
        """Return the batch, each image mirrored and shifted by its own draw; shape and type stay."""
        batch, size = len(pixels), pixels.shape[2:]
        down, right = stream.integers(2 * self.pad + 1, (2, batch))
        mirrored = stream.integers(2, (batch,)) == 1
        border = (self.pad, self.pad)
        windows = sliding_window_view(np.pad(pixels, ((0, 0), (0, 0), border, border)), size, (2, 3))
        out = np.ascontiguousarray(windows[np.arange(batch), :, down, right])
        out[mirrored] = out[mirrored, ..., ::-1]
        return out
