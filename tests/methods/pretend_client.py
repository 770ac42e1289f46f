"""A client without samples and a network of six weights, for client halves that can be followed by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from prunefl.core.masks import Masks
from prunefl.core.state import SparseState


def tiny(values: list[float], live: list[int]) -> SparseState:
    """Return a state of one layer of six weights, those at `live` holding these values."""
    mask = np.zeros(6, bool)
    mask[live] = True
    return SparseState({"w": np.array(values, np.float32)}, Masks({"w": mask.reshape(2, 3)}))


class Pretend:
    """A client without samples: it takes the steps it is told, and its gradient is given."""

    def __init__(self, state: SparseState, gradient: dict[str, Any], rate: float = 0.1) -> None:
        self.received = self.state = state
        self.gradients, self.rate = gradient, rate
        self.losses: list[SparseState] = []

    def batches(self) -> list[int]:
        return [0, 1]

    def steps(self, batches: list[int], sums: Any = None, penalty: Any = None) -> Any:
        for _ in batches:
            slopes = {n: self.gradients[n].reshape(-1)[m.reshape(-1)] for n, m in self.state.masks.items()}
            for name in slopes if penalty else ():
                slopes[name] = slopes[name] + penalty(self.state)[name]
            moved = {n: self.state.values[n] - np.float32(self.rate) * slope for n, slope in slopes.items()}
            self.state = SparseState({**self.state.values, **moved}, self.state.masks)
            for name in sums.arrays if sums else ():
                sums.arrays[name][...] += self.gradients[name]
        return SimpleNamespace(loss=1.0)

    def gradient(self, batches: list[int], shapes: dict[str, Any] | None = None) -> dict[str, Any]:
        return {name: self.gradients[name] for name in (self.gradients if shapes is None else shapes)}

    def loss(self, batches: list[int]) -> float:
        self.losses.append(self.state)
        return float(len(self.losses))

    def replace_state(self, state: SparseState) -> None:
        self.state = state


SLOPES = {"w": np.array([[0.1, -5.0, 0.0], [2.0, 0.3, -0.4]], np.float32)}
