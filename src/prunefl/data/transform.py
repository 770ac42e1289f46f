"""From stored pixels to network input, a whole batch at a time and from given random numbers."""

from collections.abc import Callable, Sequence
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
    """(x / 255 − mean) / std, channel by channel; `first` is what is done instead of dividing by 255."""

    mean: Sequence[float]
    std: Sequence[float]
    first: Callable[[NDArray[Any]], Floats] = to_unit

    def __call__(self, stored: NDArray[Any]) -> Floats:
        """Return float32, the shape of what is stored."""
        values = self.first(stored)
        channels = (-1, *[1] * (values.ndim - 2))
        mean, std = (np.array(value, np.float32).reshape(channels) for value in (self.mean, self.std))
        # not in place: `first` may give the stored array itself
        values = values - mean
        values /= std
        return values


standardise_photos = Standardise(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
"""By ImageNet's mean and deviation, as is the custom for photographs."""


@dataclass(frozen=True)
class FlipAndCrop:
    """Mirror half of the images and shift each within a black border of `pad` pixels."""

    pad: int

    def __call__(self, pixels: NDArray[Any], stream: Stream) -> NDArray[Any]:
        """Return the batch, each image mirrored and shifted by its own draw; shape and type stay."""
        return Flip()(Crop(self.pad)(pixels, stream), stream)


@dataclass(frozen=True)
class Crop:
    """Shift each image within a black border of `pad` pixels."""

    pad: int

    def __call__(self, pixels: NDArray[Any], stream: Stream) -> NDArray[Any]:
        """Return the batch, each image shifted by its own draw; shape and type stay."""
        batch, size = len(pixels), pixels.shape[2:]
        down, right = stream.integers(2 * self.pad + 1, (2, batch))
        border = (self.pad, self.pad)
        windows = sliding_window_view(np.pad(pixels, ((0, 0), (0, 0), border, border)), size, (2, 3))
        return np.ascontiguousarray(windows[np.arange(batch), :, down, right])


@dataclass(frozen=True)
class Flip:
    """Mirror half of the images."""

    def __call__(self, pixels: NDArray[Any], stream: Stream) -> NDArray[Any]:
        """Return the batch, each image mirrored or not by its own draw; shape and type stay."""
        mirrored = stream.integers(2, (len(pixels),)) == 1
        out = pixels.copy()
        out[mirrored] = out[mirrored, ..., ::-1]
        return out
