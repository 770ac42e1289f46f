"""Which weights live. A mask, never a value, is the truth about the pattern (SPEC 7)."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

T = TypeVar("T")
Masks = Mapping[str, Tensor]
"""Parameter name -> bool tensor of the parameter's shape, in the model's order; prunable weights only."""


def prunable_names(model: nn.Module, exclude: Iterable[str] = ("*downsample*",)) -> list[str]:
    """Return the names of the weights of Linear and Conv2d layers that can be pruned, in the model's order.

    Those cannot whose layer computes in a way of its own, or whose weight is frozen, shared or made of others.

    Args:
        exclude: shell patterns of names that are never pruned.
    """
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    free = {name for name, p in model.named_parameters() if p.requires_grad and uses[id(p)] == 1}
    paths = [path for path, module in model.named_modules() if _computes_plainly(module)]
    names = [f"{path}.weight" if path else "weight" for path in paths]
    return [n for n in names if n in free and not any(fnmatch(n, pattern) for pattern in exclude)]


def _computes_plainly(module: nn.Module) -> bool:
    """Return whether a layer is torch's Linear or Conv2d, or a subclass that computes like it."""
    if isinstance(module, nn.Conv2d):
        kind = type(module)
        return kind.forward is nn.Conv2d.forward and kind._conv_forward is nn.Conv2d._conv_forward
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward


def full_masks(model: nn.Module, names: Iterable[str]) -> dict[str, Tensor]:
    """Return masks in which every weight lives."""
    parameters = dict(model.named_parameters())
    return {name: torch.ones(parameters[name].shape, dtype=torch.bool) for name in names}


def live_counts(masks: Masks) -> dict[str, int]:
    """Return the number of live weights of each layer."""
    return {name: _remembered(mask, "count", _count) for name, mask in masks.items()}


def density(masks: Masks) -> float:
    """Return live / prunable weights, between 0 and 1."""
    return sum(live_counts(masks).values()) / max(1, sum(mask.numel() for mask in masks.values()))


def digest(masks: Masks) -> bytes:
    """Return the 16 bytes by which both sides name these masks: names, shapes and bits."""
    hasher = hashlib.blake2b(digest_size=16)
    for name, mask in masks.items():
        hasher.update(f"{name}{tuple(mask.shape)}".encode())
        hasher.update(_remembered(mask, "digest", _layer_digest))
    return hasher.digest()


def _layer_digest(mask: Tensor) -> bytes:
    return hashlib.blake2b(packed_bits(mask), digest_size=16).digest()


def _count(mask: Tensor) -> int:
    # a bool tensor's sum() goes through int64 and takes ten times as long
    return int(mask.count_nonzero())


def _remembered(mask: Tensor, name: str, compute: Callable[[Tensor], T]) -> T:
    """Return what is computed of a mask, once for a tensor as long as nobody writes to it."""
    made = getattr(mask, f"prunefl_{name}", None)
    if made is None or made[0] != mask._version:
        made = (mask._version, compute(mask))
        setattr(mask, f"prunefl_{name}", made)
    return cast(T, made[1])


def packed_bits(mask: Tensor) -> bytes:
    """Return the mask as bits, row-major, the first weight in the lowest bit of the first byte."""
    return np.packbits(mask.reshape(-1).numpy(), bitorder="little").tobytes()


def to_dense(values: Tensor, mask: Tensor) -> Tensor:
    """Return the layer's weights in full shape, zero where pruned; a dense tensor is returned as it is."""
    if values.shape == mask.shape:
        return values
    return torch.zeros(mask.shape).masked_scatter_(mask, values)


class DenseView(Mapping[str, Tensor]):
    """A state whose live values are spread to full shape when somebody looks: most rounds nobody does."""

    def __init__(self, state: Mapping[str, Tensor], masks: Masks) -> None:
        self._state, self._masks = state, masks
        self._made: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._masks:
            return self._state[name]
        if name not in self._made:
            self._made[name] = to_dense(self._state[name], self._masks[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def remask(
    weights: Mapping[str, Tensor],
    old: Masks,
    new: Masks,
    source: torch.Generator | None = None,
    scale: float = 0.0,
) -> dict[str, Tensor]:
    """Return the live values under new masks: survivors keep theirs, the others start at zero (SPEC 7).

    Args:
        weights: dense state under the old masks.
        source: if given, added-back weights are drawn from it with standard deviation `scale` instead.
    """
    state = {name: value for name, value in weights.items() if name not in new}
    for name, mask in new.items():
        # Never a stale value: what was pruned counts as zero, whatever stands there.
        values = torch.where(old[name], weights[name], 0.0)
        if source is not None:
            added = mask & ~old[name]
            values[added] = torch.randn(int(added.sum()), generator=source) * scale
        state[name] = values[mask]
    return {name: state[name] for name in weights}
