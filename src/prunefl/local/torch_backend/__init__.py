"""Models that hold and train only their live weights: dense <-> sparse, state, gradients, SGD."""

from prunefl.local.torch_backend.collect import collect_gradients
from prunefl.local.torch_backend.convert import densify, masks_of, sparsify
from prunefl.local.torch_backend.optimiser import SGD
from prunefl.local.torch_backend.state import load_state, state_of

__all__ = [
    "SGD",
    "collect_gradients",
    "densify",
    "load_state",
    "masks_of",
    "sparsify",
    "state_of",
]
