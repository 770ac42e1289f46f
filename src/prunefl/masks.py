"""Which weights live. A mask, never a value, is the truth about the pattern (SPEC 7)."""

import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch

import numpy as np
import torch
from torch import Tensor, nn

Masks = Mapping[str, Tensor]
"""Parameter name -> bool tensor of the parameter's shape, in the model's order; prunable weights only."""


def prunable_names(model: nn.Module, exclude: Iterable[str] = ("*downsample*",)) -> list[str]:
    """Return the names of the weights of Linear and Conv2d layers, in the model's order.

    Args:
        exclude: shell patterns of names that are never pruned.
    """
    names = [
        f"{path}.weight" if path else "weight"
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in exclude)]


def full_masks(model: nn.Module, names: Iterable[str]) -> dict[str, Tensor]:
    """Return masks in which every weight lives."""
    parameters = dict(model.named_parameters())
    return {name: torch.ones(parameters[name].shape, dtype=torch.bool) for name in names}


def live_counts(masks: Masks) -> dict[str, int]:
    """Return the number of live weights of each layer."""
    return {name: int(mask.sum()) for name, mask in masks.items()}


def density(masks: Masks) -> float:
    """Return live / prunable weights, between 0 and 1."""
    return sum(live_counts(masks).values()) / max(1, sum(mask.numel() for mask in masks.values()))


def digest(masks: Masks) -> bytes:
    """Return the 16 bytes by which both sides name these masks: names, shapes and bits."""
    hasher = hashlib.blake2b(digest_size=16)
    for name, mask in masks.items():
        hasher.update(f"{name}{tuple(mask.shape)}".encode())
        # numpy packs bits eight times faster than hashing one byte a weight
        hasher.update(packed_bits(mask))
    return hasher.digest()


def packed_bits(mask: Tensor) -> bytes:
    """Return the mask as bits, row-major, the first weight in the lowest bit of the first byte."""
    return np.packbits(mask.reshape(-1).numpy(), bitorder="little").tobytes()
