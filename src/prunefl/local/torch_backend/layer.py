"""Pruned layers that hold and compute only their live weights."""

import torch
from torch import Tensor

from prunefl.core.masks import Mask
from prunefl.local.torch_backend.chain import LayerChain, Link
from prunefl.local.torch_backend.pattern import Pattern
from prunefl.local.torch_backend.pruned import PrunedLayer, wrong_shape
from prunefl.local.torch_backend.spec import LinearSpec, Spec


class SparseLayer(PrunedLayer):
    """A pruned layer whose weight is its live values, shape (live,), in an order that suits the kernels."""

    def __init__(self, spec: Spec, weight: Tensor, bias: Tensor | None, mask: Mask) -> None:
        pattern = Pattern(spec, mask)
        super().__init__(spec, weight.detach().reshape(-1)[pattern.positions()], bias)
        self.pattern = pattern
        self.run = LayerChain([Link(self)], [self])

    @property
    def is_linear(self) -> bool:
        """Whether this is a Linear layer, not a Conv2d."""
        return isinstance(self.spec, LinearSpec)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the plain layer with zeros at pruned positions returns."""
        if not self.is_linear and x.dim() == 3:
            return self.run(x.unsqueeze(0)).squeeze(0)
        return self.run(x)

    def dense_forward(self, x: Tensor) -> Tensor:
        """Return the same from dense torch: for what the kernels do not do."""
        weight = self._scattered(self.weight)
        if self.collection is not None and weight.requires_grad:
            weight.register_hook(self.collection.add)
        return self.spec.apply(x, weight, self.bias)

    @property
    def dense_shape(self) -> torch.Size:
        """The weight's shape with pruned positions in it."""
        return self.pattern.shape

    def live_mask(self) -> Tensor:
        """Return which weights live, bool, the weight's dense shape."""
        return torch.from_numpy(self.pattern.mask())

    def row_major(self, values: Tensor) -> Tensor:
        """Return a copy in row-major order, shape (live,)."""
        return self.pattern.row_major(values)

    def load_values(self, values: Tensor) -> None:
        """Take over weights, in place: dense ones, of which the live count, or the live ones."""
        if values.shape == self.pattern.shape:
            ordered = values.detach().reshape(-1)[self.pattern.positions().to(values.device)]
        elif values.shape == self.weight.shape:
            ordered = self.pattern.blocked(values.detach())
        else:
            raise wrong_shape(values, self.pattern.shape, len(self.pattern))
        with torch.no_grad():
            self.weight.copy_(ordered)

    def arranged(self, values: Tensor) -> Tensor:
        """Return live values in the order of the kernels."""
        return self.pattern.blocked(values)

    def dense_weight(self) -> Tensor:
        """Return the weight with zeros at pruned positions, a copy."""
        return self._scattered(self.weight.detach())

    def _scattered(self, values: Tensor) -> Tensor:
        positions = self.pattern.positions().to(values.device)
        return (
            values.new_zeros(self.pattern.shape.numel())
            .scatter(0, positions, values)
            .view(self.pattern.shape)
        )
