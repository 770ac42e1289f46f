"""Which weights live. A mask, never a value, is the truth about the pattern (docs/method.md 7)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prunefl import _coding

Mask = NDArray[np.bool_]
Shape = tuple[int, ...]
Counts = Mapping[str, int]
"""Layer name -> number of live weights."""


class Masks(Mapping[str, Mask]):
    """Parameter name -> bool array of the parameter's shape, in the model's order; prunable weights only.

    Never changed once made, so that counts and digest are computed once. Two are equal if they name the same weights.
    """

    def __init__(self, masks: Mapping[str, Mask]) -> None:
        self._masks: dict[str, Mask] = {}
        for name, given in masks.items():
            if given.dtype != np.bool_:
                raise ValueError(f"mask of {name} is {given.dtype}, must be bool")
            # a copy, unless nobody can write to it anyway: the digest is remembered
            mask = np.array(given, order="C", copy=True if given.flags.writeable else None)
            mask.flags.writeable = False
            self._masks[name] = mask

    @classmethod
    def full(cls, shapes: Mapping[str, Shape]) -> "Masks":
        """Return masks in which every weight lives."""
        return cls({name: np.ones(shape, dtype=np.bool_) for name, shape in shapes.items()})

    def __getitem__(self, name: str) -> Mask:
        return self._masks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._masks)

    def __len__(self) -> int:
        return len(self._masks)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Masks) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Masks({len(self)} layers, {sum(self.counts.values()):,} of {self.size:,} weights live)"

    def flat(self, name: str) -> NDArray[np.uint8]:
        """Return a layer's mask row-major, one byte a weight, 0 or 1."""
        return self._masks[name].reshape(-1).view(np.uint8)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Live weights of each layer."""
        return {name: int(_coding.count(self.flat(name))) for name in self}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Weights of each layer, live or not."""
        return {name: mask.size for name, mask in self._masks.items()}

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each layer's weight."""
        return {name: mask.shape for name, mask in self._masks.items()}

    @property
    def size(self) -> int:
        """All prunable weights."""
        return sum(self.sizes.values())

    @property
    def density(self) -> float:
        """Live / prunable weights, between 0 and 1."""
        return sum(self.counts.values()) / max(1, self.size)

    @cached_property
    def packed(self) -> dict[str, NDArray[np.uint8]]:
        """Each layer as bits."""
        return {name: pack_mask(mask) for name, mask in self.items()}

    @cached_property
    def digest(self) -> bytes:
        """The 16 bytes by which both sides name these masks: names, shapes and bits."""
        hasher = hashlib.blake2b(digest_size=16)
        for name, bits in self.packed.items():
            hasher.update(f"{name}{self.shapes[name]}".encode())
            hasher.update(hashlib.blake2b(bits.data, digest_size=16).digest())
        return hasher.digest()


def pack_mask(mask: Mask) -> NDArray[np.uint8]:
    """Return a mask as bits, row-major, the first weight in the lowest bit of the first byte."""
    return np.packbits(mask, bitorder="little")


def unpack_mask(bits: NDArray[np.uint8], shape: Sequence[int]) -> Mask:
    """Return the mask of this shape that the bits hold."""
    count = int(np.prod(shape))
    if bits.dtype != np.uint8 or bits.size != -(-count // 8):
        raise ValueError(f"{bits.size} bytes of {bits.dtype} for a mask of shape {tuple(shape)}")
    return np.unpackbits(bits, bitorder="little", count=count).view(np.bool_).reshape(shape)
