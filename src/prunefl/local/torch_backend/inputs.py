"""What a network is called with: one tensor, several, or several by name."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from prunefl.local.backend import Inputs

TorchInputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]


def as_torch_inputs(inputs: Inputs) -> TorchInputs:
    """Return arrays as tensors, memory shared."""
    if isinstance(inputs, Mapping):
        return {name: torch.from_numpy(part) for name, part in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(torch.from_numpy(part) for part in inputs)
    return torch.from_numpy(inputs)


def call(model: nn.Module, inputs: TorchInputs) -> Any:
    """Return what the network makes of these."""
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def repeated(inputs: Inputs, count: int) -> TorchInputs:
    """Return the input of one sample, batch and all, so many times over."""
    one = as_torch_inputs(inputs)
    if isinstance(one, dict):
        return {name: part.repeat_interleave(count, 0) for name, part in one.items()}
    if isinstance(one, tuple):
        return tuple(part.repeat_interleave(count, 0) for part in one)
    return one.repeat_interleave(count, 0)
