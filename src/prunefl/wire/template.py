"""What a receiver knows beforehand about a model; it bounds what a message may claim."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import nn

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Template:
    """Names and shapes of all that is exchanged of a model, in the model's order.

    `prunable` are the names of the weights that have a mask; `buffers` are exchanged but not trained, such as
    BatchNorm's statistics, and have no importance.
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    prunable: frozenset[str]
    buffers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, model: nn.Module, prunable_names: Iterable[str]) -> "Template":
        """Return the template of a model: its parameters and floating-point buffers."""
        parameters = {name for name, _ in model.named_parameters()}
        # one tensor under two names is exchanged once
        again = {name for name, _ in model.named_parameters(remove_duplicate=False)} - parameters
        tensors = {
            name: tensor
            for name, tensor in model.state_dict().items()
            if tensor.is_floating_point() and name not in again
        }
        shapes = tuple(tuple(tensor.shape) for tensor in tensors.values())
        return cls(tuple(tensors), shapes, frozenset(prunable_names), frozenset(tensors) - parameters)

    def __post_init__(self) -> None:
        if unknown := self.prunable - set(self.names):
            raise ValueError(f"prunable={sorted(unknown)}, must be among the template's names")

    @cached_property
    def shape_of(self) -> Mapping[str, Shape]:
        """Name -> shape."""
        return dict(zip(self.names, self.shapes, strict=True))

    @cached_property
    def digest(self) -> bytes:
        """The 8 bytes by which a message names this model."""
        return digest_of(self.shape_of)

    def importance_shapes(self) -> tuple[Mapping[str, Shape], ...]:
        """Return what an importance message may hold: all parameters, or the prunable ones."""
        trained = {name: shape for name, shape in self.shape_of.items() if name not in self.buffers}
        return trained, {name: shape for name, shape in trained.items() if name in self.prunable}


def digest_of(shapes: Mapping[str, Shape]) -> bytes:
    """Return 8 bytes that stand for these names and shapes, in whatever order they are given."""
    hasher = hashlib.blake2b(digest_size=8)
    for name in sorted(shapes):
        hasher.update(f"{name}\0{','.join(map(str, shapes[name]))}\n".encode())
    return hasher.digest()


def size_of(shape: Shape) -> int:
    """Return the number of elements."""
    return math.prod(shape)
