"""Tensors with the batch innermost in memory, and layers that keep them so.

To torch they are (batch, channels, height, width) tensors with other strides: ReLU, sums, dropout keep them.
"""

from typing import Any

import torch
from torch import Tensor, nn

from prunefl import _kernels


def is_ours(x: Tensor) -> bool:
    """Return whether the memory is (channels, height, width, batch) and not torch's own order."""
    if x.dim() != 4 or x.is_contiguous():
        return False
    batch, _, height, width = x.shape
    return x.stride() == (1, height * width * batch, width * batch, batch)


def empty_ours(size: tuple[int, int, int, int]) -> Tensor:
    """Return an uninitialised tensor of shape (batch, channels, height, width), the batch innermost."""
    batch, channels, height, width = size
    return torch.empty(channels, height, width, batch).permute(3, 0, 1, 2)


class _ToTorch(torch.autograd.Function):
    """The same tensor in torch's order; several times faster than `contiguous()` from this order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _ordered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _ours(gradient)


class _ToOurs(torch.autograd.Function):
    """The same tensor with the batch innermost."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _ours(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _ordered(gradient)


def as_torch(x: Tensor) -> Tensor:
    """Return the tensor in torch's order, itself if it is already."""
    if is_ours(x) and _movable(x):
        x = _ToTorch.apply(x)  # type: ignore[no-untyped-call]
    return x


def as_ours(x: Tensor) -> Tensor:
    """Return the tensor with the batch innermost, itself if it is already."""
    if not is_ours(x) and _movable(x):
        x = _ToOurs.apply(x)  # type: ignore[no-untyped-call]
    return x


def _movable(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and x.dim() == 4


def _ordered(x: Tensor) -> Tensor:
    """Return a copy in torch's order."""
    if not is_ours(x):
        return x.contiguous()
    out = torch.empty(x.shape)
    _kernels.to_torch(_size(x), x.data_ptr(), out.data_ptr(), torch.get_num_threads())
    return out


def _ours(x: Tensor) -> Tensor:
    """Return a copy with the batch innermost."""
    if is_ours(x):
        return x
    x = x.contiguous()
    out = empty_ours(_size(x))
    _kernels.from_torch(_size(x), x.data_ptr(), out.data_ptr(), torch.get_num_threads())
    return out


def _size(x: Tensor) -> tuple[int, int, int, int]:
    batch, channels, height, width = x.shape
    return batch, channels, height, width


class OrderedConv2d(nn.Conv2d):
    """A dense Conv2d that keeps the order it is given."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what Conv2d returns."""
        if not is_ours(input):
            return super().forward(input)
        return as_ours(super().forward(as_torch(input)))


class OrderedFlatten(nn.Flatten):
    """A Flatten that takes either order."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what Flatten returns."""
        return super().forward(as_torch(input))


class OrderedReLU(nn.ReLU):
    """A ReLU that never works in place: on the views that layers here return, that copies whole tensors."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what ReLU returns."""
        return torch.relu(input)


class OrderedBatchNorm2d(nn.BatchNorm2d):
    """A BatchNorm2d that keeps the order it is given."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what BatchNorm2d returns."""
        if not is_ours(input):
            return super().forward(input)
        batch, channels, height, width = input.shape
        # Statistics run over batch and plane alike: to torch this is one sample with a long plane.
        one_sample = input.permute(1, 2, 3, 0).reshape(1, channels, height * width, batch)
        out = super().forward(one_sample)
        return out.reshape(channels, height, width, batch).permute(3, 0, 1, 2)


class OrderedMaxPool2d(nn.MaxPool2d):
    """A MaxPool2d that keeps the order it is given."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what MaxPool2d returns."""
        if not is_ours(input) or self.return_indices:
            out: Tensor = super().forward(input)
            return out
        # With batch and channels exchanged, our order is the channels-last order that torch pools quickly.
        pooled: Tensor = super().forward(input.transpose(0, 1))
        return pooled.transpose(0, 1)


class OrderedAdaptiveAvgPool2d(nn.AdaptiveAvgPool2d):
    """An AdaptiveAvgPool2d that keeps the order it is given."""

    def forward(self, input: Tensor) -> Tensor:
        """Return what AdaptiveAvgPool2d returns."""
        if not is_ours(input):
            return super().forward(input)
        return super().forward(input.transpose(0, 1)).transpose(0, 1)
