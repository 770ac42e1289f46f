"""What every pruned layer can do, however it stores its weights."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prunefl.local.torch_backend.spec import Spec


@dataclass(frozen=True)
class Collection:
    """Where a layer adds its full weight gradient while importance is collected."""

    total: Tensor
    squared: bool

    def add(self, gradient: Tensor) -> None:
        """Add g, or g², to the total, in place."""
        # totals lie where they are averaged, on the CPU
        gradient = gradient.detach().to(self.total.device, self.total.dtype)
        if self.squared:
            self.total.addcmul_(gradient, gradient)
        else:
            self.total.add_(gradient)


class PrunedLayer(nn.Module):
    """A Linear or Conv2d layer some of whose weights are pruned."""

    def __init__(self, spec: Spec, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), bias.requires_grad)
        self.collection: Collection | None = None

    @property
    def dense_shape(self) -> torch.Size:
        """The weight's shape with pruned positions in it."""
        raise NotImplementedError

    def live_mask(self) -> Tensor:
        """Return which weights live, bool, the weight's dense shape."""
        raise NotImplementedError

    def live_values(self) -> Tensor:
        """Return a copy of the live weights in row-major order, shape (live,)."""
        return self.row_major(self.weight.detach())

    def row_major(self, values: Tensor) -> Tensor:
        """Return a copy of the live ones of what is arranged as the weight, in row-major order, shape (live,)."""
        raise NotImplementedError

    def load_values(self, values: Tensor) -> None:
        """Take over weights, in place: dense ones, of which the live count, or live ones, shape (live,)."""
        raise NotImplementedError

    def arranged(self, values: Tensor) -> Tensor:
        """Return live values in row-major order as this layer's weight holds them, shape of `weight`."""
        raise NotImplementedError

    def dense_weight(self) -> Tensor:
        """Return the weight with zeros at pruned positions, a copy."""
        raise NotImplementedError

    def dense_layer(self) -> nn.Module:
        """Return a plain torch layer with copies of the parameters."""
        layer = self.spec.layer(self.bias is not None)
        layer.weight = nn.Parameter(self.dense_weight(), self.weight.requires_grad)
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias.detach().clone(), self.bias.requires_grad)
        return layer.train(self.training)

    def extra_repr(self) -> str:
        """Return the settings for print(model)."""
        return f"{self.spec}, live={int(torch.count_nonzero(self.live_mask()))}"

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        # Dense and under the plain names, so that a saved sparse model loads into a dense one and back.
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = self.dense_weight()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any, **options: Any
    ) -> None:
        name = prefix + "weight"
        if name not in state_dict:
            super()._load_from_state_dict(state_dict, prefix, *arguments, **options)
            return
        self.load_values(state_dict[name])
        rest = {**state_dict, name: self.weight.detach()}
        super()._load_from_state_dict(rest, prefix, *arguments, **options)


def wrong_shape(values: Tensor, dense: torch.Size, live: int) -> ValueError:
    """Return the exception for weights that are neither dense nor the live ones."""
    shapes = f"{tuple(dense)} or its live weights, ({live},)"
    return ValueError(f"weight has shape {tuple(values.shape)}, must be {shapes}")
