"""Pruned layers that compute densely: where that is faster, and for all that the kernels do not do."""

from typing import Any

import torch
from torch import Tensor

from prunefl.sparse.pruned import Collection, PrunedLayer, wrong_shape
from prunefl.sparse.spec import Spec


class _LiveWeight(torch.autograd.Function):
    """The weight, whose gradient arrives at live positions only."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, mask: Tensor, collection: Collection | None) -> Tensor:
        ctx.mask = mask
        ctx.collection = collection
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        if ctx.collection is not None:
            ctx.collection.add(gradient)
        return gradient * ctx.mask, None, None


class MaskedLayer(PrunedLayer):
    """A pruned layer with a dense weight that is zero wherever the mask is."""

    def __init__(self, spec: Spec, weight: Tensor, bias: Tensor | None, mask: Tensor) -> None:
        super().__init__(spec, weight.detach() * mask, bias)
        self.mask = mask.clone()

    def forward(self, x: Tensor) -> Tensor:
        """Return what the plain layer with these weights returns."""
        weight = _LiveWeight.apply(self.weight, self.mask, self.collection)  # type: ignore[no-untyped-call]
        return self.spec.apply(x, weight, self.bias)

    def live_mask(self) -> Tensor:
        """Return which weights live, bool, the weight's shape."""
        return self.mask.clone()

    def live_values(self) -> Tensor:
        """Return a copy of the live weights in row-major order, shape (live,)."""
        return self.weight.detach()[self.mask]

    def load_values(self, values: Tensor) -> None:
        """Take over weights, in place: dense ones, or the live ones in row-major order."""
        with torch.no_grad():
            if values.shape == self.weight.shape:
                self.weight.copy_(values * self.mask)
                return
            live = int(torch.count_nonzero(self.mask))
            if values.shape != (live,):
                raise wrong_shape(values, self.weight.shape, live)
            self.weight[self.mask] = values.to(self.weight)

    def dense_weight(self) -> Tensor:
        """Return a copy of the weight."""
        return self.weight.detach().clone()

    def _apply(self, fn: Any, recurse: bool = True) -> "MaskedLayer":
        # The mask is no buffer, so that it is not in the state dict; it still moves with the weight.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.mask = self.mask.to(self.weight.device)
        return self
