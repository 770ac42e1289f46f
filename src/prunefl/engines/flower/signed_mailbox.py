"""The server's end of signed messages: signs what goes to each client, and believes what that client has signed."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from prunefl.engines.flower.envelope import one_line
from prunefl.engines.flower.key_files import parse_public_key, read_signing_key
from prunefl.engines.flower.keys import read_register
from prunefl.engines.flower.mailbox import Answer, Messages
from prunefl.engines.flower.signing import (
    SERVER,
    SignatureError,
    Statement,
    is_signed,
    name_client,
    sign_message,
    unpack_signed,
    verify,
)


@dataclass
class Numbers:
    """Numbers of messages: each larger than all before, also than those of earlier runs: microseconds since 1970."""

    last: int = 0

    def next(self) -> int:
        """Return the next number."""
        self.last = max(self.last + 1, time.time_ns() // 1000)
        return self.last


@dataclass
class SignedMailbox:
    """A mailbox whose messages are signed on both sides.

    Attributes:
        run: the run's name.
        key: the server's signing key.
        register: client -> its public key.
        clients: node -> client; nodes that are not in it are not written to.
    """

    mailbox: Messages
    run: str
    key: ec.EllipticCurvePrivateKey
    register: Mapping[int, ec.EllipticCurvePublicKey]
    clients: Mapping[int, int]
    _numbers: Numbers = field(default_factory=Numbers)
    _open: dict[str, Statement] = field(default_factory=dict)

    def list_online(self) -> dict[int, str]:
        """Return the nodes that are there and registered, each with the time since when."""
        return {node: since for node, since in self.mailbox.list_online().items() if node in self.clients}

    def send(self, sealed: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        """Send each node its bytes, signed for its client; return the messages' names."""
        statements = {
            node: Statement(self.run, group, self._numbers.next(), SERVER, name_client(self.clients[node]))
            for node in sealed
        }
        signed = {node: sign_message(self.key, statements[node], data) for node, data in sealed.items()}
        sent = self.mailbox.send(signed, seconds, group)
        self._open |= {name: statements[node] for node, name in sent.items()}
        return sent

    def fetch(self) -> list[Answer]:
        """Return the answers that have come, with what their clients signed, or why it is not believed."""
        return [self._open_answer(answer) for answer in self.mailbox.fetch()]

    def wait(self, seconds: float) -> None:
        """Return when an answer may have come, after so many seconds at most."""
        self.mailbox.wait(seconds)

    def forget(self, name: str) -> None:
        """Do not look for this answer any more."""
        self._open.pop(name, None)
        self.mailbox.forget(name)

    def _open_answer(self, answer: Answer) -> Answer:
        asked = self._open.pop(answer.message, None)
        if answer.error or asked is None:
            return answer
        try:
            return replace(answer, content=self._verify(asked, answer.content))
        except SignatureError as error:
            words = f"answer refused: {error}{_read_unsigned(answer)}"
            return replace(answer, content=b"", error=one_line(words))

    def _verify(self, asked: Statement, data: bytes) -> bytes:
        signed = unpack_signed(data)
        expected = replace(asked, sender=asked.addressee, addressee=SERVER)
        if signed.statement != expected:
            raise SignatureError(f"it is no answer of {expected.sender} to this message")
        client = int(expected.sender.rpartition("-")[2])
        verify(self.register[client], expected, signed.content, signed.signature)
        return signed.content


def sign_messages(mailbox: Messages, run: str, folder: Path, nodes: Mapping[int, int]) -> SignedMailbox:
    """Return the mailbox with messages signed by the keys in a folder that `prunefl keys` made."""
    register = {client: parse_public_key(text) for client, text in read_register(folder).items()}
    known = {node: client for node, client in nodes.items() if client in register}
    return SignedMailbox(mailbox, run, read_signing_key(folder), register, known)


def _read_unsigned(answer: Answer) -> str:
    """Return what somebody says who did not sign it: a hint for people, nothing to go by."""
    if is_signed(answer.content) or not answer.is_error:
        return ""
    try:
        answer.open()
    except ValueError as error:
        return f" (it says: {error})"
    return ""
