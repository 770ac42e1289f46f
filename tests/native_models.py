"""Networks of a user's own that a plan can say, as `native_models:NAME`."""

from torch import nn


def convolutional(classes: int, channels: int) -> nn.Module:
    """Return a little network with all that has a state: BatchNorm, and dropout's random numbers."""
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.Hardswish(),
        nn.Dropout2d(0.2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(196, 24),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(24, classes),
    )
