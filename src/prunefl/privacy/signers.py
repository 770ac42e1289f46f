"""Signing keys for simulated clients; real ones sign with their node keys (engines/flower/peers.py)."""

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from prunefl.privacy.errors import Refused


@dataclass
class SimulatedKeys:
    """Keys of all clients in one process, made when they are first asked for.

    A signature that one client has checked is not checked again by the others: they are the same process.
    """

    keys: dict[int, Ed25519PrivateKey] = field(default_factory=dict)
    checked: set[tuple[int, bytes, bytes]] = field(default_factory=set)

    def key(self, client: int) -> Ed25519PrivateKey:
        """Return a client's key."""
        if client not in self.keys:
            # setdefault: two threads may ask at once
            self.keys.setdefault(client, Ed25519PrivateKey.generate())
        return self.keys[client]


@dataclass(frozen=True)
class SimulatedSigner:
    """A simulated client's signing key among those of all."""

    client: int
    all_keys: SimulatedKeys

    def sign(self, content: bytes) -> bytes:
        """Return this client's signature."""
        return self.all_keys.key(self.client).sign(content)

    def verify(self, client: int, content: bytes, signature: bytes) -> None:
        """Raise Refused unless this client has signed the content."""
        if (client, content, signature) in self.all_keys.checked:
            return
        try:
            self.all_keys.key(client).public_key().verify(signature, content)
        except InvalidSignature:
            raise Refused(f"a key that client {client} has not signed") from None
        self.all_keys.checked.add((client, content, signature))
