"""Models that hold and train only their live weights: dense <-> sparse, state, gradients, SGD."""

from prunefl.sparse.collect import collect_gradients
from prunefl.sparse.convert import densify, masks_of, sparsify
from prunefl.sparse.optimiser import SGD
from prunefl.sparse.state import load_state, state_of

__all__ = [
    "SGD",
    "collect_gradients",
    "densify",
    "load_state",
    "masks_of",
    "sparsify",
    "state_of",
]
