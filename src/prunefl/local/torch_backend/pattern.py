"""Which weights of a layer live, as the kernels hold it; shared by all copies of a model, never changed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from prunefl import _kernels
from prunefl.core.masks import packed_bits
from prunefl.local.torch_backend.spec import ConvSpec, LinearSpec, Spec

MOST_STRIDE = 8


class Pattern:
    """The live positions of one layer."""

    def __init__(self, spec: Spec, mask: Tensor) -> None:
        self.spec = spec
        self.shape = mask.shape
        live = mask.reshape(mask.shape[0], -1).contiguous().view(torch.uint8).numpy()
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

    def mask(self) -> Tensor:
        """Return the mask, bool, the weight's dense shape."""
        flat = torch.zeros(self.shape.numel(), dtype=torch.bool)
        flat[self.positions()] = True
        return flat.view(self.shape)

    def __deepcopy__(self, memo: object) -> Pattern:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _unpacked, (self.spec, tuple(self.shape), packed_bits(self.mask()))


def _unpacked(spec: Spec, shape: tuple[int, ...], bits: bytes) -> Pattern:
    """Return the pattern that was saved as bits."""
    count = int(np.prod(shape))
    live = np.unpackbits(np.frombuffer(bits, np.uint8), count=count, bitorder="little")
    return Pattern(spec, torch.from_numpy(live).bool().view(shape))


def kernels_compute(spec: Spec, weight: Tensor) -> bool:
    """Return whether the kernels can compute such a layer."""
    if weight.dtype != torch.float32 or weight.device.type != "cpu" or weight.numel() == 0:
        return False
    if isinstance(spec, ConvSpec):
        return spec.padding_mode == "zeros" and max(spec.stride) <= MOST_STRIDE
    return True
