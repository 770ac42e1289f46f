"""One state: live values with the masks they live under. Nobody guesses by shape whether an array is live or dense."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from prunefl import _coding
from prunefl.core.masks import Masks
from prunefl.core.randomness import Stream

Array: TypeAlias = NDArray[np.float32]
Arrays: TypeAlias = Mapping[str, Array]
"""Name -> float32 array in the parameter's own shape."""


@dataclass(frozen=True, eq=False)
class SparseState:
    """A network's parameters and float buffers.

    Attributes:
        values: in the model's order: a layer with a mask as its live values in row-major order, shape (live,);
            all else in its own shape. Not to be written to.
    """

    values: Arrays
    masks: Masks

    def __post_init__(self) -> None:
        for name, count in self.masks.counts.items():
            if name not in self.values:
                raise ValueError(f"there are no values of {name!r}, which has a mask")
            if self.values[name].shape != (count,):
                raise ValueError(f"values[{name!r}] has shape {self.values[name].shape}, its mask ({count},)")

    @classmethod
    def from_dense(cls, weights: Arrays, masks: Masks) -> "SparseState":
        """Return the state of arrays that are all in their own shape; what is pruned is left behind."""
        return cls({n: pick(w, masks, n) if n in masks else w for n, w in weights.items()}, masks)

    def dense(self, name: str) -> Array:
        """Return an array in its own shape, zero where pruned."""
        if name not in self.masks:
            return self.values[name]
        if self.masks.counts[name] == self.masks.sizes[name]:
            return self.values[name].reshape(self.masks.shapes[name])
        whole = np.zeros(self.masks.sizes[name], np.float32)
        _coding.scatter(self.values[name], self.masks.flat(name), whole)
        return whole.reshape(self.masks.shapes[name])

    def remask(self, masks: Masks, regrow: Stream | None = None, scale: float = 0.0) -> "SparseState":
        """Return the state under new masks: survivors keep their values, the others start at zero (docs/method.md 7).

        Args:
            regrow: if given, added-back weights are drawn from it with standard deviation `scale` instead.
        """
        if masks is self.masks:
            return self
        values = dict(self.values)
        for name, mask in masks.items():
            values[name] = pick(self.dense(name), masks, name)
            if regrow is not None:
                added = ~self.masks[name][mask]
                values[name][added] = scale * regrow.normal(int(np.count_nonzero(added)))
        return SparseState(values, masks)


def pick(weight: Array, masks: Masks, name: str) -> Array:
    """Return a copy of the live values of an array in its own shape, row-major, shape (live,)."""
    live = np.empty(masks.counts[name], np.float32)
    _coding.gather(np.ascontiguousarray(weight, np.float32).reshape(-1), masks.flat(name), live)
    return live
