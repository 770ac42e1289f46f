"""A small U-Net: a class for every pixel."""

import torch
from torch import Tensor, nn


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Ronneberger et al. 2015, two floors deep; sides of images are divided by four."""

    def __init__(self, classes: int, channels: int, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = _twice(channels, width), _twice(width, 2 * width)
        self.bottom = _twice(2 * width, 4 * width)
        self.up_second, self.up_first = _twice(6 * width, 2 * width), _twice(3 * width, width)
        self.out = nn.Conv2d(width, classes, 1)
        self.shrink, self.grow = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (batch, classes, height, width)."""
        first = self.first(images)
        second = self.second(self.shrink(first))
        x = self.grow(self.bottom(self.shrink(second)))
        x = self.grow(self.up_second(torch.cat([x, second], 1)))
        logits: Tensor = self.out(self.up_first(torch.cat([x, first], 1)))
        return logits


def unet(classes: int, channels: int) -> UNet:
    """Return a U-Net of width 16: 115,000 weights for one channel and two classes."""
    return UNet(classes, channels)
