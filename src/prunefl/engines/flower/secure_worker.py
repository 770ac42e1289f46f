"""A real client's part in secure sums: its node key signs, its register knows the others, secrets stay in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from prunefl.engines.flower.codec import read_number
from prunefl.engines.flower.envelope import Envelope
from prunefl.engines.flower.identity import Identity
from prunefl.engines.flower.key_files import parse_public_key
from prunefl.engines.flower.keys import REGISTER, read_register
from prunefl.engines.flower.session import Session, SessionError
from prunefl.engines.flower.signing import SignatureError, Statement, name_client, sign, verify
from prunefl.privacy.errors import Refused, require_packages
from prunefl.privacy.holdings import Member
from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork
from prunefl.rounds.secure_client import Evaluate, Vault, follow_securely, introduce_ahead
from prunefl.system.errors import PruneFLError


def _speak(client: int) -> Statement:
    return Statement("", "secure aggregation", 0, name_client(client), "clients")


@dataclass(frozen=True)
class NodeSigner:
    """Signs with a client's node key; the others' public keys are those of its own folder, not the server's word."""

    client: int
    key: ec.EllipticCurvePrivateKey
    register: Mapping[int, ec.EllipticCurvePublicKey]

    def sign(self, content: bytes) -> bytes:
        """Return this client's signature."""
        return sign(self.key, _speak(self.client), content)

    def verify(self, client: int, content: bytes, signature: bytes) -> None:
        """Raise Refused unless this client has signed the content."""
        if client not in self.register:
            raise Refused(
                f"client {client} is not in this client's {REGISTER}: take the new one from the server"
            )
        try:
            verify(self.register[client], _speak(client), content, signature)
        except SignatureError:
            raise Refused(f"a key that client {client} has not signed") from None


@dataclass
class SecureWorker:
    """What a worker keeps for the secure sums of a run.

    Attributes:
        folder: the client's folder of keys.
        run: to which the vault belongs.
    """

    identity: Identity | None
    folder: Path | None
    resident: bool
    vault: Vault = field(default_factory=Vault)
    run: str = ""

    def refuse_misfit(self, session: Session) -> None:
        """Say why this client cannot take part in a run with secure sums."""
        if not session.client.config.privacy.secure:
            return
        if self.identity is None or not self.resident:
            raise SessionError(
                "privacy.secure=true needs a key of each client: give --keys in place of --insecure"
            )
        try:
            require_packages()
            self._signer()
        except PruneFLError as error:
            raise SessionError(str(error)) from None

    def _signer(self) -> NodeSigner:
        assert self.identity is not None
        assert self.folder is not None
        register = {client: parse_public_key(text) for client, text in read_register(self.folder).items()}
        return NodeSigner(self.identity.client, self.identity.key, register)

    def introduce(self, session: Session, hello: Envelope, joined: Envelope) -> Envelope:
        """Return what a client says when it joins, with its key for the epoch that the server asks for."""
        if not session.client.config.privacy.secure or "epoch" not in hello.values:
            return joined
        epoch = read_number(hello.values, "epoch", int)
        self.vault, key = introduce_ahead(self._vault_of(session), self._member(session), epoch)
        return replace(joined, values={**joined.values, "epoch": epoch}, parts=(key,))

    def _vault_of(self, session: Session) -> Vault:
        if self.run != session.run:
            self.run, self.vault = session.run, Vault()
        return self.vault

    def _member(self, session: Session) -> Member:
        client, privacy = session.client, session.client.config.privacy
        return Member(client.number, session.run, privacy.threshold, privacy.neighbours, self._signer())

    def follow(self, session: Session, order: Order, evaluate: Evaluate) -> Reply:
        """Return the answer to any order of such a run; training leaves a state behind."""
        client, vault, member = session.client, self._vault_of(session), self._member(session)
        # the model after a round is evaluated by who may have taken part in it
        after_round = isinstance(order.work, EvaluationWork)
        before = session.store.before(order.round + after_round)
        reply, after, self.vault = follow_securely(order, client, before, vault, member, evaluate)
        if not isinstance(order.work, SecureWork | EvaluationWork):
            session.store.save(order.round, after)
        return reply
