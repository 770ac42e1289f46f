"""What server and clients send each other, as bytes that are small and safe to receive."""

from prunefl.wire.describe import Description, describe
from prunefl.wire.errors import WireError
from prunefl.wire.importance import pack_importance, unpack_importance
from prunefl.wire.packing import Residual, pack, pack_with_feedback
from prunefl.wire.unpacking import unpack

__all__ = [
    "Description",
    "Residual",
    "WireError",
    "describe",
    "pack",
    "pack_importance",
    "pack_with_feedback",
    "unpack",
    "unpack_importance",
]
