"""What the core must know of a network: names, shapes, first weights. No layer is called here."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from prunefl.core.masks import Masks, Shape
from prunefl.core.state import SparseState


@dataclass(frozen=True)
class Template:
    """Names and shapes of all that is exchanged of a model, in the model's order; it bounds what a message may claim.

    `prunable` are the names of the weights that have a mask; `buffers` are exchanged but not trained, such as
    BatchNorm's statistics, and have no importance.
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    prunable: frozenset[str]
    buffers: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := self.prunable - set(self.names):
            raise ValueError(f"prunable={sorted(unknown)}, must be among the template's names")

    @cached_property
    def shape_of(self) -> Mapping[str, Shape]:
        """Name -> shape."""
        return dict(zip(self.names, self.shapes, strict=True))

    @cached_property
    def parameters(self) -> Mapping[str, Shape]:
        """Name -> shape of what is trained: what importance may speak of."""
        return {name: shape for name, shape in self.shape_of.items() if name not in self.buffers}

    @cached_property
    def layers(self) -> Mapping[str, Shape]:
        """Name -> shape of the prunable weights, in the model's order."""
        return {name: shape for name, shape in self.shape_of.items() if name in self.prunable}

    @cached_property
    def digest(self) -> bytes:
        """The 8 bytes by which a message names this model."""
        return digest_shapes(self.shape_of)


def digest_shapes(shapes: Mapping[str, Shape]) -> bytes:
    """Return 8 bytes that stand for these names and shapes, in whatever order they are given."""
    hasher = hashlib.blake2b(digest_size=8)
    for name in sorted(shapes):
        hasher.update(f"{name}\0{','.join(map(str, shapes[name]))}\n".encode())
    return hasher.digest()


@dataclass(frozen=True)
class Network:
    """A network before training.

    Attributes:
        first: its first weights, all of them live.
        positions: output positions of a sample at which each weight of a layer works, for FLOPs: 1 for a linear
            layer, height × width of the output for a convolution.
        input_shape: of one sample.
        example: the input of one sample where it is not one float array: tokens, or several parts.
        module: the network itself for what has to call it (a torch module); methods but SynFlow do not. None at a
            client that trains by plan.
        plan: the network as operations (`prunefl.local.native.Plan`); None where torch trains it.
        whole_positions: those of the layers that could be pruned, but are left whole (`pruning.exclude`).
    """

    template: Template
    first: SparseState
    positions: Mapping[str, int]
    input_shape: Shape
    classes: int
    module: Any = None
    example: Any = None
    plan: Any = None
    whole_positions: Mapping[str, int] = field(default_factory=dict)

    @property
    def full_masks(self) -> Masks:
        """Masks in which every prunable weight lives."""
        return self.first.masks

    @property
    def left_whole(self) -> list[str]:
        """Names of the weights, of two dimensions or more, that are trained but never pruned: embeddings and others."""
        template = self.template
        return [n for n, s in template.parameters.items() if len(s) > 1 and n not in template.prunable]

    @cached_property
    def whole_sizes(self) -> Mapping[str, int]:
        """Weights of each layer that could be pruned, but is left whole."""
        return {name: math.prod(self.template.shape_of[name]) for name in self.whole_positions}

    @cached_property
    def parameters(self) -> int:
        """How many trained numbers there are."""
        return sum(math.prod(shape) for shape in self.template.parameters.values())
