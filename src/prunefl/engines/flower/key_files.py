"""A key in a file: read with one line on what is wrong with it, written for its owner only."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_private

NODE, SIGNING, SIGNING_PUBLIC = "node.key", "signing.key", "signing.pem"
"""A client signs with the first, the server with the second; each client's folder has the third, to check that."""

Key = ec.EllipticCurvePrivateKey


def read_signing_key(folder: Path) -> Key:
    """Return the key with which the server signs."""
    path = folder / SIGNING
    if not path.exists():
        raise PruneFLError(
            f"{path}: no such file; make it with: prunefl keys {folder}, and give each client its new {SIGNING_PUBLIC}"
        )
    return read_key(path)


def read_node_key(path: Path) -> Key:
    """Return a client's key, or raise ValueError in one line."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except OSError as error:
        raise PruneFLError(f"{path}: cannot read the node key ({error.strerror})") from None
    except (ValueError, TypeError):
        raise PruneFLError(f"{path}: not a node key; make one with: prunefl keys") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PruneFLError(f"{path}: must be an elliptic-curve key; make one with: prunefl keys")
    return key


def check_node_key(path: Path) -> str:
    """Return the public half (PEM) of a client's key, or raise ValueError in one line."""
    return public_text(read_node_key(path).public_key())


def read_public_key(path: Path) -> ec.EllipticCurvePublicKey:
    """Return a public key in a PEM file, or say in one line what is wrong with it."""
    try:
        return parse_public_key(path.read_text())
    except OSError as error:
        raise PruneFLError(
            f"{path}: cannot read the server's public key ({error.strerror}); take it from this client's folder on the "
            "server, where `prunefl keys` makes it"
        ) from None
    except ValueError:
        raise PruneFLError(f"{path}: not a public key of this federation") from None


def parse_public_key(text: str) -> ec.EllipticCurvePublicKey:
    """Return a public key given as PEM; ValueError if it is none, or of another curve than all keys are."""
    key = serialization.load_pem_public_key(text.encode())
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise ValueError("not a key on P-384")
    return key


def public_text(key: ec.EllipticCurvePublicKey) -> str:
    """Return a public key as PEM, the form in which Flower registers it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


def read_key(path: Path) -> Key:
    """Return a private key in a PEM file, or say in one line what is wrong with it."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise PruneFLError(f"{path}: cannot read the key ({error.strerror})") from None
    except (ValueError, TypeError):
        raise PruneFLError(f"{path}: not a PEM private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PruneFLError(f"{path}: must be an elliptic-curve key")
    return key


def write_key(path: Path, key: Key) -> Path:
    """Write a private key as PEM and return its path."""
    form = serialization.PrivateFormat.PKCS8
    return write_private(
        path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
