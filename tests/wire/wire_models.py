"""Small models, states and masks that the wire tests share."""

import torch
from torch import Tensor, nn

from prunefl import wire
from prunefl.core import masks as pattern


def small_model() -> nn.Module:
    torch.manual_seed(1)
    convolution = [nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.Flatten()]
    return nn.Sequential(*convolution, nn.Linear(20, 7), nn.Linear(7, 3))


def template_of(model: nn.Module) -> wire.Template:
    return wire.Template.of(model, pattern.prunable_names(model))


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items() if tensor.is_floating_point()}


def random_masks(model: nn.Module, density: float, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    full = pattern.full_masks(model, pattern.prunable_names(model))
    return {name: torch.rand(mask.shape, generator=generator) < density for name, mask in full.items()}


def same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))
