"""What server and clients send each other, as bytes that are small and safe to receive."""

from prunefl.wire.errors import WireError
from prunefl.wire.importance import pack_importance, unpack_importance
from prunefl.wire.state import dense, pack, unpack
from prunefl.wire.template import Template

__all__ = ["Template", "WireError", "dense", "pack", "pack_importance", "unpack", "unpack_importance"]
