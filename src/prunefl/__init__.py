"""PruneFL: federated learning in which the model shrinks while it trains."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prunefl.config import Config
    from prunefl.export import load
    from prunefl.runner import Run
    from prunefl.sparse import densify, sparsify
    from prunefl.training import run_config, train

__all__ = ["Config", "Run", "densify", "load", "run_config", "sparsify", "train"]

_HOMES = {
    "Config": "prunefl.config",
    "Run": "prunefl.runner",
    "densify": "prunefl.sparse",
    "load": "prunefl.export",
    "run_config": "prunefl.training",
    "sparsify": "prunefl.sparse",
    "train": "prunefl.training",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `prunefl --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'prunefl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
