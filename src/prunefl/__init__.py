"""PruneFL: federated learning in which the model shrinks while it trains."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prunefl.config import Config
    from prunefl.export import load
    from prunefl.local.torch_backend import densify, sparsify
    from prunefl.report.picture import plot
    from prunefl.runs.api import run_config, train
    from prunefl.runs.callbacks import EarlyStopping
    from prunefl.runs.runner import Run
    from prunefl.system.errors import PruneFLError
    from prunefl.system.version import __version__

__all__ = [
    "Config",
    "EarlyStopping",
    "PruneFLError",
    "Run",
    "__version__",
    "densify",
    "load",
    "plot",
    "run_config",
    "sparsify",
    "train",
]

_HOMES = {
    "Config": "prunefl.config",
    "EarlyStopping": "prunefl.runs.callbacks",
    "PruneFLError": "prunefl.system.errors",
    "Run": "prunefl.runs.runner",
    "densify": "prunefl.local.torch_backend",
    "load": "prunefl.export",
    "plot": "prunefl.report.picture",
    "run_config": "prunefl.runs.api",
    "sparsify": "prunefl.local.torch_backend",
    "train": "prunefl.runs.api",
    "__version__": "prunefl.system.version",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `prunefl --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'prunefl' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
