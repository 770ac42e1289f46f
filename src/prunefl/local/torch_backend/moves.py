"""Tensors of a traced network that are known values in another order: found by moving numbered places about."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prunefl.core.masks import Shape
from prunefl.local.native import PlanError
from prunefl.local.native.operations import Flatten, Operation, Tokens

SAMPLES = 2
"""Of the example by which shapes are found."""

METHODS = frozenset(
    {
        *("view", "reshape", "flatten", "unflatten", "transpose", "permute", "movedim"),
        *("squeeze", "unsqueeze", "contiguous", "chunk", "split", "unbind"),
    }
)
FUNCTIONS: frozenset[Any] = frozenset(
    {
        *(torch.flatten, torch.reshape, torch.transpose, torch.permute, torch.movedim, torch.squeeze),
        *(torch.unsqueeze, torch.chunk, torch.split, torch.unbind, operator.getitem),
    }
)
LAYERS = (nn.Flatten, nn.Unflatten)


@dataclass(frozen=True)
class Seen:
    """A tensor of the trace: numbers of a value of the plan, or of a parameter, in some order.

    Attributes:
        source: the value's number, or the parameter's name.
        shape: of the source; of a value, that of one sample.
        places: which number of the source each number is, samples first; None: all in their own order.
    """

    source: int | str
    shape: Shape
    places: Tensor | None = None

    @property
    def whole(self) -> Tensor:
        """The places of the source's numbers in their own order."""
        shape = self.shape if isinstance(self.source, str) else (SAMPLES, *self.shape)
        return torch.arange(math.prod(shape)).view(shape)

    def moved(self, move: Callable[[Tensor], Any]) -> Any:
        """Return what a function that only moves numbers makes of it: one such tensor, or several."""
        found = move(self.whole if self.places is None else self.places)
        if isinstance(found, tuple | list):
            return tuple(Seen(self.source, self.shape, each) for each in found)
        return Seen(self.source, self.shape, found)

    def lies_as(self, places: Tensor) -> bool:
        """Return whether its numbers are these of the source, in this order."""
        own = self.whole if self.places is None else self.places
        return own.shape == places.shape and bool(torch.equal(own, places))

    def view(self) -> Operation | None:
        """Return the operation that makes this of its source, None where it is the source; PlanError if none does."""
        whole = self.whole
        if self.places is None or self.lies_as(whole):
            return None
        if len(self.shape) == 3:
            if self.lies_as(whole.flatten(1)):
                return Flatten()
            if self.lies_as(whole.flatten(2).transpose(1, 2)):
                return Tokens()
        made = tuple(self.places.shape[1:])
        raise PlanError(f"there is no operation that makes {made} of shape {self.shape} in this way")


def first_feature(part: Seen, heads: int) -> int | None:
    """Return where the features of a query, key or value begin in its source; None where it is none of tokens.

    It must have the shape (samples, heads, tokens, features of a head).
    """
    if isinstance(part.source, str) or len(part.shape) != 2 or part.places is None:
        return None
    first, each = int(part.places.flatten()[0]), part.places.shape[-1]
    own = part.whole[:, :, first : first + heads * each]
    if own.shape[-1] != heads * each:
        return None
    return first if part.lies_as(own.unflatten(2, (heads, each)).transpose(1, 2)) else None
