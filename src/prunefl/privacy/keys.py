"""Keys: X25519 agreements, and what is derived from them. No primitive is our own: all are from `cryptography`."""

import hashlib
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from prunefl.privacy.errors import Refused

KEY_BYTES = 32


class Signer(Protocol):
    """A client's own key, and the others' public ones, which it has not from the server."""

    def sign(self, content: bytes) -> bytes:
        """Return this client's signature."""

    def verify(self, client: int, content: bytes, signature: bytes) -> None:
        """Raise Refused unless this client has signed the content."""


def derive(secret: bytes, purpose: bytes, context: bytes) -> bytes:
    """Return a key of 32 bytes for one purpose, in one context."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=b"prunefl " + purpose + b"\0" + context).derive(
        secret
    )


def key_of_seed(seed: bytes) -> X25519PrivateKey:
    """Return the key pair of one round that a shared seed stands for."""
    return X25519PrivateKey.from_private_bytes(derive(seed, b"round key", b""))


def public_bytes(key: X25519PrivateKey) -> bytes:
    """Return the public half."""
    return key.public_key().public_bytes_raw()


def agree(key: X25519PrivateKey, other: bytes) -> bytes:
    """Return the secret that two keys have in common."""
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise Refused("a public key that is none") from None


def mask_key(agreed: bytes, context: bytes) -> bytes:
    """Return the key of the mask of two clients. `context` names all that they were told of the round.

    Who was told another thing makes another mask, and nothing cancels.
    """
    return derive(agreed, b"pair mask", context)


def own_mask_key(seed: bytes, context: bytes) -> bytes:
    """Return the key of a client's own mask."""
    return derive(seed, b"own mask", context)


def lock_key(agreed: bytes, view: bytes, sender: int, receiver: int) -> bytes:
    """Return the key of what one client hands another for the case that both were told the same."""
    return derive(agreed, b"lock", view + b"%d to %d" % (sender, receiver))


def answer_key(lock: bytes, view: bytes) -> bytes:
    """Return the key of a client's answer, which its lock opens."""
    return derive(lock, b"answer", view)


def seal_once(key: bytes, content: bytes) -> bytes:
    """Return the content encrypted by a key that serves for nothing else."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), content, None)


def open_once(key: bytes, content: bytes) -> bytes:
    """Return what `seal_once` has sealed, or refuse it."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), content, None)
    except (InvalidTag, ValueError):
        raise Refused("an answer that its key does not open") from None


def commit(seed: bytes) -> bytes:
    """Return what tells later whether shares brought the right seed back."""
    return hashlib.sha256(b"prunefl seed\0" + seed).digest()


def encrypt(agreed: bytes, context: bytes, serial: int, content: bytes) -> bytes:
    """Return what only the other end can read, and nobody can change.

    Args:
        context: run, epoch, sender and receiver, for a key of this direction alone.
        serial: never the same twice under one key: it is the nonce.
    """
    key = derive(agreed, b"channel", context)
    return ChaCha20Poly1305(key).encrypt(serial.to_bytes(12, "little"), content, context)


def decrypt(agreed: bytes, context: bytes, serial: int, content: bytes) -> bytes:
    """Return what the other end has encrypted; Refused if it was not it."""
    key = derive(agreed, b"channel", context)
    try:
        return ChaCha20Poly1305(key).decrypt(serial.to_bytes(12, "little"), content, context)
    except (InvalidTag, ValueError):
        raise Refused("shares that were not encrypted for this round, by whom they are said to be") from None
