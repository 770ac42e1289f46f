"""The version, once."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("prunefl")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0+source"
__version__ = VERSION
