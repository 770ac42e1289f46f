"""Which weights of a layer live, as the kernels hold it; shared by all copies of a model, never changed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from prunefl import _kernels
from prunefl.core.masks import Mask, pack_mask, unpack_mask
from prunefl.local.torch_backend.spec import ConvSpec, LinearSpec, Spec

MOST_STRIDE = 8


class Pattern:
    """The live positions of one layer."""

    def __init__(self, spec: Spec, mask: Mask) -> None:
        self.spec = spec
        self.shape = torch.Size(mask.shape)
        live = np.ascontiguousarray(mask.reshape(mask.shape[0], -1)).view(np.uint8)
        if isinstance(spec, LinearSpec):
            self.native: _kernels.LinearPattern | _kernels.ConvPattern = _kernels.LinearPattern(live)
        else:
            self.native = _kernels.ConvPattern(
                live, spec.groups, spec.kernel_size, spec.stride, spec.dilation, spec.zeros_around()
            )

    def __len__(self) -> int:
        return len(self.native)

    def positions(self) -> Tensor:
        """Return the live positions in the flat dense weight, in the order of the kernels, int64, shape (live,)."""
        return torch.from_numpy(self.native.positions())

    def row_major(self, values: Tensor) -> Tensor:
        """Return values that are in the order of the kernels in row-major order, shape (live,)."""
        if values.dtype != torch.float32 or values.device.type != "cpu":
            return values[self.positions().argsort().to(values.device)]
        out = torch.empty_like(values)
        self.native.to_row_major(values.data_ptr(), out.data_ptr())
        return out

    def blocked(self, values: Tensor) -> Tensor:
        """Return values that are in row-major order in the order of the kernels, shape (live,)."""
        if values.dtype != torch.float32 or values.device.type != "cpu":
            return values[self.positions().argsort().argsort().to(values.device)]
        out = torch.empty_like(values)
        self.native.from_row_major(values.contiguous().data_ptr(), out.data_ptr())
        return out

    def mask(self) -> Mask:
        """Return the mask, bool, the weight's dense shape."""
        flat = np.zeros(self.shape.numel(), np.bool_)
        flat[self.native.positions()] = True
        return flat.reshape(self.shape)

    def __deepcopy__(self, memo: object) -> Pattern:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _unpacked, (
            self.spec,
            tuple(self.shape),
            pack_mask(self.mask()).tobytes(),
        )


def _unpacked(spec: Spec, shape: tuple[int, ...], bits: bytes) -> Pattern:
    """Return the pattern that was saved as bits."""
    return Pattern(spec, unpack_mask(np.frombuffer(bits, np.uint8), shape))


def kernels_compute(spec: Spec, weight: Tensor) -> bool:
    """Return whether the kernels can compute such a layer."""
    if weight.dtype != torch.float32 or weight.device.type != "cpu" or weight.numel() == 0:
        return False
    if isinstance(spec, ConvSpec):
        return spec.padding_mode == "zeros" and max(spec.stride) <= MOST_STRIDE
    return True
