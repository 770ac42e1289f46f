"""What a client knows and keeps to itself in secure sums: who it is, its secrets, and what others gave it to keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from prunefl.privacy import graph, keys
from prunefl.privacy.messages import Plan, Terms


@dataclass(frozen=True)
class Member:
    """Who a client is, and what it insists on, whatever the server says.

    Attributes:
        run: the name of the run that it takes part in.
        threshold, neighbours: privacy.threshold and privacy.neighbours as it knows them.
    """

    client: int
    run: str
    threshold: float
    neighbours: int
    signer: keys.Signer

    def draw_graph(self, plan: Plan) -> Mapping[int, frozenset[int]]:
        """Return with whom each client of this sum masks."""
        return graph.draw_graph(plan.cohort, self.neighbours, plan.digest)

    def count_shares(self, plan: Plan) -> int:
        """Return how many shares bring a secret back."""
        return graph.count_shares(len(plan.cohort), self.neighbours, self.threshold)


@dataclass(frozen=True)
class Channel:
    """This client's key of an epoch, and what it said of it: the public half, signed."""

    key: X25519PrivateKey
    introduction: bytes


@dataclass(frozen=True)
class Peer:
    """Another client in this epoch: its public key as it signed it, and what we agreed on with it."""

    public: bytes
    agreed: bytes


@dataclass(frozen=True)
class Held:
    """What another client has given us to keep for a round: shares of the seeds of its key and of its own mask."""

    of_key: bytes
    of_mask: bytes


@dataclass(frozen=True)
class OpenSum:
    """A sum that this client takes part in.

    Attributes:
        key_seed, mask_seed: the secrets of this sum.
        terms, held: since its vector was masked: under which terms, and what we keep for others; None before.
    """

    plan: Plan
    key_seed: bytes
    mask_seed: bytes
    terms: Terms | None = None
    held: Mapping[int, Held] = field(default_factory=dict)


@dataclass(frozen=True)
class Secrets:
    """What a client keeps to itself, in memory alone: after a restart it introduces itself anew.

    Attributes:
        epoch: of its channel key, 0 before the first sum.
        spares: later epoch -> the key that it has made for it ahead; none of them has served yet.
        serial: of the last sum that it took part in.
        current: the sum that is under way, None when its secrets were used.
        unmasked: purpose -> which sum was unmasked for it, by a digest of whose it was. Of the same updates, sums over
            other clients would tell what one of them sent.
    """

    epoch: int = 0
    channel: Channel | None = None
    spares: Mapping[int, Channel] = field(default_factory=dict)
    peers: Mapping[int, Peer] = field(default_factory=dict)
    serial: int = 0
    current: OpenSum | None = None
    unmasked: Mapping[str, bytes] = field(default_factory=dict)
