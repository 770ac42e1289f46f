"""Secrets of 16 bytes in shares, by PyCryptodome's Shamir over GF(2^128)."""

from collections.abc import Mapping, Sequence

from Crypto.Protocol.SecretSharing import Shamir

SECRET_BYTES = 16


def split(secret: bytes, holders: Sequence[int], needed: int) -> dict[int, bytes]:
    """Return a share for each holder; any `needed` of them bring the secret back, fewer say nothing."""
    made = Shamir.split(needed, len(holders), secret, ssss=False)
    return {holder: share for holder, (_, share) in zip(holders, made, strict=True)}


def join(found: Mapping[int, bytes], holders: Sequence[int], needed: int) -> bytes:
    """Return the secret of which these holders gave their shares, at least `needed` of them."""
    numbers = {holder: number for number, holder in enumerate(holders, 1)}
    some = [(numbers[holder], found[holder]) for holder in sorted(found)[:needed]]
    return bytes(Shamir.combine(some, ssss=False))
