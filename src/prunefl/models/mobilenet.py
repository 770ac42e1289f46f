"""MobileNetV3-Small (Howard et al. 2019) with torchvision's state-dict names: published weights load."""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from prunefl.models.dropout import SeededDropout

Activation = Callable[[], nn.Module]

# kernel, expanded width, width, squeeze and excitation, activation, stride
BLOCKS: tuple[tuple[int, int, int, bool, Activation, int], ...] = (
    (3, 16, 16, True, nn.ReLU, 2),
    (3, 72, 24, False, nn.ReLU, 2),
    (3, 88, 24, False, nn.ReLU, 1),
    (5, 96, 40, True, nn.Hardswish, 2),
    (5, 240, 40, True, nn.Hardswish, 1),
    (5, 240, 40, True, nn.Hardswish, 1),
    (5, 120, 48, True, nn.Hardswish, 1),
    (5, 144, 48, True, nn.Hardswish, 1),
    (5, 288, 96, True, nn.Hardswish, 2),
    (5, 576, 96, True, nn.Hardswish, 1),
    (5, 576, 96, True, nn.Hardswish, 1),
)


class SqueezeExcitation(nn.Module):
    """Scale each channel by what the whole image says about it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = _divisible_by_eight(channels // 4)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled channels, the input's shape."""
        scale = self.activation(self.fc1(self.avgpool(x)))
        return x * cast(Tensor, self.scale_activation(self.fc2(scale)))


class InvertedResidual(nn.Module):
    """Expand, filter each channel by itself, squeeze; with a shortcut where the shapes agree."""

    def __init__(
        self,
        channels: int,
        kernel: int,
        expanded: int,
        width: int,
        excite: bool,
        act: Activation,
        stride: int,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if expanded != channels:
            layers.append(_convolution(channels, expanded, 1, 1, 1, act))
        layers.append(_convolution(expanded, expanded, kernel, stride, expanded, act))
        if excite:
            layers.append(SqueezeExcitation(expanded))
        layers.append(_convolution(expanded, width, 1, 1, 1, None))
        self.block = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and channels == width

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, shape (batch, width, height / stride, width / stride)."""
        y = cast(Tensor, self.block(x))
        return x + y if self.has_shortcut else y


class MobileNetV3Small(nn.Module):
    """A stem, eleven inverted residuals, a wide convolution and a two-layer head."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(channels, 16, 3, 2, 1, nn.Hardswish)]
        width = 16
        for block in BLOCKS:
            layers.append(InvertedResidual(width, *block))
            width = block[2]
        layers.append(_convolution(width, 576, 1, 1, 1, nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        head = (nn.Linear(576, 1024), nn.Hardswish(), SeededDropout(0.2), nn.Linear(1024, classes))
        self.classifier = nn.Sequential(*head)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, shape (batch, classes)."""
        return cast(Tensor, self.classifier(self.avgpool(self.features(x)).flatten(1)))


def mobilenetv3_small(classes: int = 2, channels: int = 3) -> MobileNetV3Small:
    """Return MobileNetV3-Small; with 2 classes 1,519,906 parameters, 927,008 of them below the head."""
    model = MobileNetV3Small(classes, channels)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, 0.01)
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    return model


def _convolution(
    channels: int, width: int, kernel: int, stride: int, groups: int, act: Activation | None
) -> nn.Sequential:
    """Return a convolution, its normalisation and, where there is one, its activation."""
    conv = nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    norm = nn.BatchNorm2d(width, eps=0.001, momentum=0.01)
    return nn.Sequential(conv, norm) if act is None else nn.Sequential(conv, norm, act())


def _divisible_by_eight(width: int) -> int:
    """Return the multiple of 8 nearest to the width, never less than nine tenths of it."""
    nearest = max(8, (width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * width else nearest
