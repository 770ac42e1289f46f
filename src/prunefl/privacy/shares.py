"""Secrets of 16 bytes in shares, by the Shamir of `shamirs` over a prime field."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import shamirs

SECRET_BYTES = 16
SHARE_BYTES = 17
PRIME = (1 << 130) - 5
"""The smallest field of whole numbers with room for a secret that has a name: Poly1305's."""


def split(secret: bytes, holders: Sequence[int], needed: int) -> dict[int, bytes]:
    """Return a share for each holder; any `needed` of them bring the secret back, fewer say nothing."""
    made = shamirs.shares(int.from_bytes(secret, "little"), len(holders), PRIME, needed)
    return {
        holder: int(one.value).to_bytes(SHARE_BYTES, "little")
        for holder, one in zip(holders, made, strict=True)
    }


def join(found: Mapping[int, bytes], holders: Sequence[int], needed: int) -> bytes:
    """Return the secret of which these holders gave their shares, at least `needed` of them.

    Of shares that do not fit together it is another one, which its commitment or its seal tells.
    """
    numbers = {holder: number for number, holder in enumerate(holders, 1)}
    some = sorted(found)[:needed]
    weights = _weigh(tuple(numbers[holder] for holder in some))
    total = sum(w * int.from_bytes(found[h], "little") for w, h in zip(weights, some, strict=True)) % PRIME
    return (total & ((1 << 8 * SECRET_BYTES) - 1)).to_bytes(SECRET_BYTES, "little")


@lru_cache(maxsize=256)
def _weigh(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights at zero of the shares with these numbers.

    Kept: they are the same for all secrets of a sum, where `shamirs.interpolate` finds them anew for each. Nothing
    secret is in them, and what they bring back is checked.
    """
    weights = []
    for one in numbers:
        above, below = 1, 1
        for other in numbers:
            if other != one:
                above, below = above * -other % PRIME, below * (one - other) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)
