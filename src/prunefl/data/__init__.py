"""Data sets, and how they are cut into clients."""

from prunefl.data.federation import Federation, Source, checked
from prunefl.data.load import load, load_configured, load_for_server, load_for_share
from prunefl.data.samples import Images, Samples, Tensors, Wrapped, filled, wrap, wrap_all
from prunefl.data.sources import NAMES, source_of

__all__ = [
    "NAMES",
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
    "load_for_server",
    "load_for_share",
    "source_of",
    "wrap",
    "wrap_all",
]
