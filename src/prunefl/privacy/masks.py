"""Masks: the key stream of ChaCha20, added to a vector or taken away from it."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from prunefl.privacy.fixed_point import Words

CHUNK_BYTES = 1 << 18
"""Of the stream at a time: it stays in the processor's cache until it is added."""

_ZEROS = bytes(CHUNK_BYTES)


def add_mask(words: Words, key: bytes) -> None:
    """Add the stream of a key, which serves for one vector, in place."""
    _apply(words, key, np.add)


def take_mask(words: Words, key: bytes) -> None:
    """Take it away."""
    _apply(words, key, np.subtract)


def _apply(words: Words, key: bytes, operation: np.ufunc) -> None:
    # the key is new for every vector, so the nonce need not be
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    buffer = bytearray(CHUNK_BYTES)
    _apply_part(words.wide, stream, buffer, operation)
    _apply_part(words.narrow, stream, buffer, operation)


def _apply_part(
    part: "NDArray[np.uint32] | NDArray[np.uint16]", stream: object, buffer: bytearray, operation: np.ufunc
) -> None:
    # the stream is read as little-endian numbers on every machine
    chunk = np.frombuffer(buffer, part.dtype.newbyteorder("<"))
    for start in range(0, part.size, chunk.size):
        piece = part[start : start + chunk.size]
        size = piece.nbytes
        stream.update_into(memoryview(_ZEROS)[:size], memoryview(buffer)[:size])  # type: ignore[attr-defined]
        operation(piece, chunk[: piece.size], out=piece)
