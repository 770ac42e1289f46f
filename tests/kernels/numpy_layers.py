"""The kernels' oracle where there is no torch: convolution and max-pooling in plain numpy, float64."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Conv:
    """A convolution's shape; padding is top, bottom, left, right."""

    inputs: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """As torch has it."""
        return (self.outputs, self.inputs // self.groups, *self.kernel)

    def out_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output."""
        top, bottom, left, right = self.padding
        return (
            (height + top + bottom - self.dilation[0] * (self.kernel[0] - 1) - 1) // self.stride[0] + 1,
            (width + left + right - self.dilation[1] * (self.kernel[1] - 1) - 1) // self.stride[1] + 1,
        )

    def taps(self, height: int, width: int) -> list[tuple[int, int, tuple[slice, ...]]]:
        """Each kernel position with the part of the padded input that it reads."""
        down, across = self.out_size(height, width)
        return [
            (i, j, (slice(None), slice(None), *self._reads(i, j, down, across)))
            for i in range(self.kernel[0])
            for j in range(self.kernel[1])
        ]

    def _reads(self, i: int, j: int, down: int, across: int) -> tuple[slice, slice]:
        top, left = i * self.dilation[0], j * self.dilation[1]
        return (
            slice(top, top + (down - 1) * self.stride[0] + 1, self.stride[0]),
            slice(left, left + (across - 1) * self.stride[1] + 1, self.stride[1]),
        )

    def pad(self, x: Floats) -> Floats:
        """The input with its border of zeros."""
        return np.pad(x, ((0, 0), (0, 0), self.padding[:2], self.padding[2:]))

    def by_group(self, x: Floats) -> Floats:
        """Channels split into groups: (batch, groups, channels of a group, height, width)."""
        return x.reshape(len(x), self.groups, -1, *x.shape[2:])

    def forward(self, x: Floats, weight: Floats, bias: Floats) -> Floats:
        """The output, (batch, channels, height, width)."""
        padded = self.pad(x)
        w = weight.reshape(self.groups, -1, *weight.shape[1:])
        y = sum(
            np.einsum("ngchw,goc->ngohw", self.by_group(padded[part]), w[..., i, j])
            for i, j, part in self.taps(*x.shape[2:])
        )
        return y.reshape(len(x), self.outputs, *y.shape[3:]) + bias[:, None, None]

    def backward(self, x: Floats, weight: Floats, dy: Floats) -> tuple[Floats, Floats, Floats]:
        """Gradients of the input, of all weights, and of the bias."""
        padded, w = self.pad(x), weight.reshape(self.groups, -1, *weight.shape[1:])
        dx, dw, g = np.zeros_like(padded), np.zeros_like(w), self.by_group(dy)
        for i, j, part in self.taps(*x.shape[2:]):
            dw[..., i, j] = np.einsum("ngchw,ngohw->goc", self.by_group(padded[part]), g)
            dx[part] += np.einsum("ngohw,goc->ngchw", g, w[..., i, j]).reshape(dx[part].shape)
        top, _, left, _ = self.padding
        inside = dx[:, :, top : top + x.shape[2], left : left + x.shape[3]]
        return inside, dw.reshape(weight.shape), dy.sum(axis=(0, 2, 3))


@dataclass(frozen=True)
class Pool:
    """Max-pooling over windows; what lies beyond the edge never wins."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int] = (0, 0)

    def windows(self, x: Floats) -> Floats:
        """(batch, channels, height, width, positions in the window)."""
        (top, left), ends = self.pad, ((0, 0), (0, 0))
        padded = np.pad(x, (*ends, (top, top), (left, left)), constant_values=-np.inf)
        views = np.lib.stride_tricks.sliding_window_view(padded, self.kernel, axis=(2, 3))
        views = views[:, :, :: self.stride[0], :: self.stride[1]]
        return views.reshape(*views.shape[:4], -1)

    def forward(self, x: Floats) -> Floats:
        """The largest of every window."""
        return self.windows(x).max(axis=-1)

    def backward(self, x: Floats, dy: Floats) -> Floats:
        """The gradient goes to the first of the largest."""
        dx = np.zeros((*x.shape[:2], x.shape[2] + 2 * self.pad[0], x.shape[3] + 2 * self.pad[1]))
        for (n, c, h, w), winner in np.ndenumerate(self.windows(x).argmax(axis=-1)):
            i, j = divmod(int(winner), self.kernel[1])
            dx[n, c, h * self.stride[0] + i, w * self.stride[1] + j] += dy[n, c, h, w]
        return dx[:, :, self.pad[0] :, self.pad[1] :][:, :, : x.shape[2], : x.shape[3]]
