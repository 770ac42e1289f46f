"""Data sets, and how they are cut into clients."""

from prunefl.data.federation import Federation, Source, checked
from prunefl.data.load import LOADERS, load, load_configured, source_of
from prunefl.data.samples import Images, Samples, Tensors, Wrapped, filled, wrap, wrap_all

__all__ = [
    "LOADERS",
    "Federation",
    "Images",
    "Samples",
    "Source",
    "Tensors",
    "Wrapped",
    "checked",
    "filled",
    "load",
    "load_configured",
    "source_of",
    "wrap",
    "wrap_all",
]
