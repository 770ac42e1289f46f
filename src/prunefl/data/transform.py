"""From stored pixels to network input, a whole batch at a time and from a given generator."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def to_unit(pixels: Tensor) -> Tensor:
    """Return uint8 0..255 as float32 0..1."""
    return pixels.to(torch.float32).div_(255.0)


def to_inverted_unit(pixels: Tensor) -> Tensor:
    """Return 1 − x: LEAF's ink is dark on white, and the network should see ink."""
    return to_unit(pixels).neg_().add_(1.0)


@dataclass(frozen=True)
class Standardise:
    """(x / 255 − mean) / std, channel by channel."""

    mean: Sequence[float]
    std: Sequence[float]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return float32, the shape of the pixels."""
        mean = torch.tensor(self.mean).view(-1, 1, 1)
        std = torch.tensor(self.std).view(-1, 1, 1)
        return to_unit(pixels).sub_(mean).div_(std)


@dataclass(frozen=True)
class FlipAndCrop:
    """Mirror half of the images and shift each within a black border of `pad` pixels."""

    pad: int

    def __call__(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """Return the batch, each image mirrored and shifted by its own draw; shape and type stay."""
        batch, channels, height, width = pixels.shape
        shift = torch.randint(2 * self.pad + 1, (2, batch, 1), generator=generator)
        mirrored = torch.randint(2, (batch, 1), generator=generator).bool()
        columns = torch.arange(width)
        columns = torch.where(mirrored, columns.flip(0), columns) + shift[1]
        rows = torch.arange(height) + shift[0]
        padded = functional.pad(pixels, (self.pad,) * 4)
        which = torch.arange(batch).view(-1, 1, 1, 1)
        channel = torch.arange(channels).view(1, -1, 1, 1)
        return padded[which, channel, rows[:, None, :, None], columns[:, None, None, :]]
