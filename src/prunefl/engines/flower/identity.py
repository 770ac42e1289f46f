"""The client's end of signed messages: only the server's, for this client, each once; answers in its own name."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from prunefl.engines.flower import key_files
from prunefl.engines.flower.signing import (
    SERVER,
    SignatureError,
    Statement,
    name_client,
    sign_message,
    unpack_signed,
    verify,
)
from prunefl.system.files import write_private

FILE = "last-message.json"
"""In a client's state: the number of the last message from the server. What is not larger was there before."""


@dataclass(frozen=True)
class Identity:
    """A client's key, the server's public one, and where it keeps which message was the last."""

    client: int
    key: ec.EllipticCurvePrivateKey
    server: ec.EllipticCurvePublicKey
    folder: Path

    def answer(self, data: bytes, answer: Callable[[bytes], bytes]) -> bytes:
        """Return the signed answer to a signed message of the server; SignatureError for any other."""
        statement, content = self._open(data)
        reply = replace(statement, sender=name_client(self.client), addressee=SERVER)
        return sign_message(self.key, reply, answer(content))

    def _open(self, data: bytes) -> tuple[Statement, bytes]:
        signed = unpack_signed(data)
        statement = signed.statement
        if statement.sender != SERVER or statement.addressee != name_client(self.client):
            raise SignatureError(
                f"a message from {statement.sender[:40]!r} to {statement.addressee[:40]!r}, must be from "
                f"{SERVER!r} to {name_client(self.client)!r}"
            )
        verify(self.server, statement, signed.content, signed.signature)
        last = self._read_last()
        if statement.number <= last:
            raise SignatureError(
                f"message {statement.number} for {statement.exchange!r} has been here before, or is older than "
                f"message {last}; if the server's clock was set back, set it right"
            )
        # before it is followed: a crash must not let it come twice
        write_private(self.folder / FILE, json.dumps({"number": statement.number}).encode())
        return statement, signed.content

    def _read_last(self) -> int:
        try:
            number = json.loads((self.folder / FILE).read_text())["number"]
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError):
            number = None
        if type(number) is not int:
            raise SignatureError(
                f"{FILE} cannot be read, so replays cannot be told: delete this client's state"
            )
        return number


def read_identity(client: int, folder: Path, state: Path) -> Identity:
    """Return the identity of a client from its folder of keys."""
    return Identity(
        client,
        key_files.read_node_key(folder / key_files.NODE),
        key_files.read_public_key(folder / key_files.SIGNING_PUBLIC),
        state,
    )
