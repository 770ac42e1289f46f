"""A trained model on its way out: loaded sparse for inference, or written for other programs."""

from prunefl.export.inference import load
from prunefl.export.write import FORMATS, Exported, export

__all__ = ["FORMATS", "Exported", "export", "load"]
