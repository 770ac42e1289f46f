"""Pruned layers that compute densely: where that is faster, and for all that the kernels do not do."""

from typing import Any

import torch
from torch import Tensor

from prunefl.core.masks import Mask, pack_mask, unpack_mask
from prunefl.local.torch_backend.layout import as_ours, as_torch, is_ours
from prunefl.local.torch_backend.pruned import Collection, PrunedLayer, wrong_shape
from prunefl.local.torch_backend.spec import Spec


class _LiveWeight(torch.autograd.Function):
    """The weight, whose gradient arrives at live positions only."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, layer: "MaskedLayer", collection: Collection | None) -> Tensor:
        ctx.weight, ctx.layer, ctx.collection = weight, layer, collection
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        if ctx.collection is not None:
            ctx.collection.add(gradient)
        if getattr(ctx.weight, "live_only", False):
            ctx.weight.live_only = False
            return gradient, None, None
        return gradient * ctx.layer.live_mask(), None, None


class MaskedLayer(PrunedLayer):
    """A pruned layer with a dense weight that is zero wherever the mask is; the mask is kept as bits."""

    def __init__(self, spec: Spec, weight: Tensor, bias: Tensor | None, mask: Mask) -> None:
        super().__init__(spec, weight.detach() * torch.tensor(mask, device=weight.device), bias)
        self.bits = torch.from_numpy(pack_mask(mask))
        self._moved: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return what the plain layer with these weights returns."""
        if not is_ours(x):
            return self.spec.apply(x, self._weight_for_one_pass(), self.bias)
        return as_ours(self.spec.apply(as_torch(x), self._weight_for_one_pass(), self.bias))

    def _weight_for_one_pass(self) -> Tensor:
        """Return the weight, which on its way back clears the gradient of pruned positions where need be."""
        weight = self.weight
        weight.live_bits = self.bits  # type: ignore[attr-defined]
        # Our SGD leaves pruned weights alone by itself, and says so before every step.
        if self.collection is None and getattr(weight, "live_only", False):
            weight.live_only = False  # type: ignore[attr-defined]
            return weight
        cleared: Tensor = _LiveWeight.apply(weight, self, self.collection)  # type: ignore[no-untyped-call]
        return cleared

    @property
    def dense_shape(self) -> torch.Size:
        """The weight's shape."""
        return self.weight.shape

    def live_mask(self) -> Tensor:
        """Return which weights live, bool, the weight's shape."""
        device = self.weight.device
        if device.type == "cpu":
            return torch.from_numpy(unpack_mask(self.bits.numpy(), self.weight.shape))
        # elsewhere every step needs it, and bits would have to be sent there each time
        if self._moved is None or self._moved.device != device:
            self._moved = torch.from_numpy(unpack_mask(self.bits.numpy(), self.weight.shape)).to(device)
        return self._moved

    def row_major(self, values: Tensor) -> Tensor:
        """Return a copy of what the mask keeps in row-major order, shape (live,)."""
        # numpy: a selection by a mask takes torch three times as long
        live = values.cpu().numpy()[self.live_mask().cpu().numpy()]
        return torch.from_numpy(live).to(self.weight.device)

    def load_values(self, values: Tensor) -> None:
        """Take over weights, in place: dense ones, or the live ones in row-major order."""
        mask = self.live_mask()
        with torch.no_grad():
            if values.shape == self.weight.shape:
                self.weight.copy_(values.to(self.weight.device) * mask)
                return
            live = int(torch.count_nonzero(mask))
            if values.shape != (live,):
                raise wrong_shape(values, self.weight.shape, live)
            self.weight.masked_scatter_(mask, values.to(self.weight))

    def arranged(self, values: Tensor) -> Tensor:
        """Return live values at their places, zeros elsewhere."""
        return torch.zeros_like(self.weight).masked_scatter_(self.live_mask(), values.to(self.weight))

    def dense_weight(self) -> Tensor:
        """Return a copy of the weight."""
        return self.weight.detach().clone()
