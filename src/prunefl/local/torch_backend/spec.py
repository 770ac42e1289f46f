"""What a layer computes, apart from its parameters, and how dense torch computes it on any device."""

from dataclasses import asdict, dataclass

from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class LinearSpec:
    """A Linear layer's settings."""

    in_features: int
    out_features: int

    def apply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return x·Wᵀ + b, shape (..., out_features)."""
        return functional.linear(x, weight, bias)

    def layer(self, bias: bool) -> nn.Linear:
        """Return a plain layer without storage."""
        return nn.Linear(self.in_features, self.out_features, bias, device="meta")


@dataclass(frozen=True)
class ConvSpec:
    """A Conv2d layer's settings, as torch names them."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] | str
    dilation: tuple[int, int]
    groups: int
    padding_mode: str

    def apply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the convolution, shape (batch, out_channels, height, width)."""
        if self.padding_mode == "zeros":
            return functional.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        conv = self.layer(bias=False)
        # torch keeps the other padding modes to itself, and this method uses no parameter of its layer
        padded: Tensor = conv._conv_forward(x, weight, bias)
        return padded

    def zeros_around(self) -> tuple[int, int, int, int]:
        """Return the rows and columns of zeros around the input: top, bottom, left, right."""
        if isinstance(self.padding, tuple):
            (down, across) = self.padding
            return down, down, across, across
        if self.padding == "valid":
            return 0, 0, 0, 0
        # "same": an odd row or column goes behind, as in torch
        down, across = (d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True))
        return down // 2, down - down // 2, across // 2, across - across // 2

    def layer(self, bias: bool) -> nn.Conv2d:
        """Return a plain layer without storage."""
        return nn.Conv2d(**asdict(self), bias=bias, device="meta")


Spec = LinearSpec | ConvSpec


def spec_of(layer: nn.Linear | nn.Conv2d) -> Spec:
    """Return the settings of a plain layer."""
    if isinstance(layer, nn.Linear):
        return LinearSpec(layer.in_features, layer.out_features)
    names = ConvSpec.__dataclass_fields__
    return ConvSpec(**{name: getattr(layer, name) for name in names})
