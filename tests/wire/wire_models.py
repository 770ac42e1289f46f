"""A small network as the wire sees it, and states and masks of it."""

import numpy as np

from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState

SHAPES = {
    "0.weight": (5, 2, 3, 3),
    "0.bias": (5,),
    "1.weight": (5,),
    "1.bias": (5,),
    "1.running_mean": (5,),
    "1.running_var": (5,),
    "3.weight": (7, 20),
    "3.bias": (7,),
    "4.weight": (3, 7),
    "4.bias": (3,),
}
TEMPLATE = Template(
    tuple(SHAPES),
    tuple(SHAPES.values()),
    frozenset({"0.weight", "3.weight", "4.weight"}),
    frozenset({"1.running_mean", "1.running_var"}),
)


def random_masks(density: float, seed: int = 0) -> Masks:
    """Return masks with about this share of every layer."""
    rng = np.random.default_rng(seed)
    return Masks({name: rng.random(shape) < density for name, shape in TEMPLATE.layers.items()})


def random_weights(seed: int = 1) -> dict[str, np.ndarray]:
    """Return all that is exchanged, in its own shape."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in SHAPES.items()}


def random_state(density: float, seed: int = 0) -> SparseState:
    """Return a state with about this share of every layer."""
    return SparseState.from_dense(random_weights(seed + 1), random_masks(density, seed))


def flat_state(values: np.ndarray, mask: np.ndarray) -> SparseState:
    """Return the state of one layer, named w, with these live values."""
    return SparseState({"w": values}, Masks({"w": mask}))
