"""Who says what to whom: messages signed end to end, so that nobody who carries them needs to be trusted.

Signed is `signed_bytes(statement, content)`: a fixed line, the statement as JSON with sorted keys and without spaces,
a zero byte, and the SHA-384 digest of the content; by ECDSA with SHA-384 on P-384, the curve of the node keys.
"""

import hashlib
import json
import struct
from dataclasses import asdict, dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PURPOSE = b"prunefl signed message 1\n"
SERVER = "server"
MAGIC = b"PFS1"
MAX_STATEMENT, MAX_SIGNATURE = 4096, 256
_SIZES = struct.Struct("<4sHH")


class SignatureError(ValueError):
    """A message that is not signed, not by whom it says, or not for this."""


@dataclass(frozen=True)
class Statement:
    """What a signature binds beside the content.

    Attributes:
        run: the run's name.
        exchange: what the message is for, with the round: "round 7", "evaluation after round 7", "hello", "end".
        number: of the server's message, larger than of all before; a reply repeats the number that it answers.
        sender, addressee: "server" or "client-3".
    """

    run: str
    exchange: str
    number: int
    sender: str
    addressee: str


def name_client(client: int) -> str:
    """Return a client's name in a statement."""
    return f"client-{client}"


def signed_bytes(statement: Statement, content: bytes) -> bytes:
    """Return what is signed of a message."""
    about = json.dumps(asdict(statement), sort_keys=True, separators=(",", ":")).encode()
    return PURPOSE + about + b"\0" + hashlib.sha384(content).digest()


def sign(key: ec.EllipticCurvePrivateKey, statement: Statement, content: bytes) -> bytes:
    """Return the signature of a message."""
    return key.sign(signed_bytes(statement, content), ec.ECDSA(hashes.SHA384()))


def verify(key: ec.EllipticCurvePublicKey, statement: Statement, content: bytes, signature: bytes) -> None:
    """Raise SignatureError unless the owner of the key has signed this statement about this content."""
    try:
        key.verify(signature, signed_bytes(statement, content), ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        raise SignatureError(f"its signature is not that of {statement.sender}") from None


@dataclass(frozen=True)
class Signed:
    """A message as it travels: the statement, its signature, the content."""

    statement: Statement
    signature: bytes
    content: bytes

    def pack(self) -> bytes:
        """Return it as bytes: magic, sizes, the statement as JSON, the signature, the content."""
        about = json.dumps(asdict(self.statement)).encode()
        return b"".join(
            [_SIZES.pack(MAGIC, len(about), len(self.signature)), about, self.signature, self.content]
        )


def sign_message(key: ec.EllipticCurvePrivateKey, statement: Statement, content: bytes) -> bytes:
    """Return a message as it travels."""
    return Signed(statement, sign(key, statement, content), content).pack()


def is_signed(data: bytes) -> bool:
    """Return whether bytes look like a signed message."""
    return data[:4] == MAGIC


def unpack_signed(data: bytes) -> Signed:
    """Return what the bytes hold, not verified yet; SignatureError if they are no signed message."""
    if len(data) < _SIZES.size or not is_signed(data):
        raise SignatureError("it is not signed")
    _, about_size, signature_size = _SIZES.unpack_from(data)
    start, end = _SIZES.size + about_size, _SIZES.size + about_size + signature_size
    if about_size > MAX_STATEMENT or signature_size > MAX_SIGNATURE or len(data) < end:
        raise SignatureError("its signature is cut off")
    return Signed(_read_statement(data[_SIZES.size : start]), data[start:end], data[end:])


def _read_statement(data: bytes) -> Statement:
    kinds = {"run": str, "exchange": str, "number": int, "sender": str, "addressee": str}
    try:
        about = json.loads(data)
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or about.keys() != kinds.keys():
        raise SignatureError("its statement is not readable")
    if any(type(about[name]) is not kind for name, kind in kinds.items()):
        raise SignatureError("its statement is not readable")
    return Statement(**about)
