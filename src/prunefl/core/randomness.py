"""All randomness of a run, derived from (seed, purpose, numbers): nothing to save, no race (docs/method.md 12).

The numbers are those of torch's CPU generator (Mersenne Twister), so that a seed means the same wherever torch is not,
and what earlier versions drew.
"""

import hashlib
import math
import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def derived_seed(seed: int, purpose: str, *numbers: int) -> int:
    """Return a 63-bit seed that depends on every argument."""
    text = " ".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


class Stream:
    """Random numbers one after another."""

    def __init__(self, seed: int) -> None:
        # a Mersenne Twister takes 32 bits
        self._source = np.random.RandomState(seed & 0xFFFFFFFF)

    def _raw(self, count: int) -> NDArray[np.uint32]:
        return self._source.randint(0, 1 << 32, count, dtype=np.uint32)

    def integers(self, below: int, shape: Sequence[int]) -> Ints:
        """Return whole numbers from 0 on, each below `below`, int64."""
        count = math.prod(shape)
        if below < 1 << 28:  # beyond it a remainder of 32 bits would be uneven
            return (self._raw(count) % np.uint32(below)).astype(np.int64).reshape(shape)
        pairs = self._raw(2 * count).astype(np.uint64).reshape(-1, 2)
        return (
            ((pairs[:, 0] << np.uint64(32) | pairs[:, 1]) % np.uint64(below)).astype(np.int64).reshape(shape)
        )

    def permutation(self, size: int, first: int | None = None) -> Ints:
        """Return the first numbers (all, if it is not said how many) of 0 .. size - 1 in random order, int64."""
        steps = self._raw(max(0, size - 1)) % np.arange(size, 1, -1, dtype=np.uint32)
        order = list(range(size))
        wanted = size if first is None else min(first, size)
        for i, step in enumerate(steps[:wanted].tolist()):
            order[i], order[i + step] = order[i + step], order[i]
        return np.array(order[:wanted], dtype=np.int64)

    def uniform(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """Return numbers in [0, 1), float32."""
        bits = self._raw(math.prod(shape)) & np.uint32((1 << 24) - 1)
        return (bits.astype(np.float32) * np.float32(2.0**-24)).reshape(shape)

    def beta(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return a number from each of the Beta distributions, of the shape of both."""
        return self._source.beta(a, b)

    def normal(self, count: int) -> NDArray[np.float64]:
        """Return numbers of mean 0 and variance 1, shape (count,)."""
        pairs = -(-count // 2)
        words = self._raw(4 * pairs).astype(np.uint64).reshape(pairs, 2, 2)
        u = ((words[..., 0] << np.uint64(32) | words[..., 1]) & np.uint64((1 << 53) - 1)).astype(
            np.float64
        ) * 2.0**-53
        radius, angle = np.sqrt(-2.0 * np.log1p(-u[:, 1])), 2.0 * np.pi * u[:, 0]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]


def stream(seed: int, purpose: str, *numbers: int) -> Stream:
    """Return fresh random numbers for one purpose, such as the batches of client 3 in round 7."""
    return Stream(derived_seed(seed, purpose, *numbers))


def lots(*words: str | int) -> Stream:
    """Return the random numbers of a method's own choices, such as of ("erk", seed)."""
    text = "/".join(map(str, words)).encode()
    return Stream(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def draw_clients(seed: int, round: int, clients: int, participants: int) -> list[int]:
    """Return the round's cohort, sorted, drawn without replacement; every method sees the same (docs/method.md 11)."""
    if participants in (0, clients):
        return list(range(clients))
    return sorted(stream(seed, "cohort", round).permutation(clients, participants).tolist())


Normal = Callable[[int], NDArray[np.float64]]
"""So many numbers of mean 0 and variance 1, new ones at every call."""


def seeded_normal(seed: int, purpose: str, *numbers: int) -> Normal:
    """Return a source of noise that can be drawn again: for simulations; it hides nothing from who knows the seed."""
    return np.random.Generator(np.random.PCG64(derived_seed(seed, purpose, *numbers))).standard_normal


class SystemStream(Stream):
    """Random numbers of the operating system: nobody can draw them again, so that they can hide something."""

    def __init__(self) -> None:
        pass

    def _raw(self, count: int) -> NDArray[np.uint32]:
        return np.frombuffer(os.urandom(4 * count), np.uint32)
