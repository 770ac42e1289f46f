"""Identity for a small federation: one authority, one server certificate, one key per client."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from prunefl.engines.flower.certificates import AUTHORITY, SERVER, make_authority, make_server_certificate
from prunefl.engines.flower.key_files import NODE, SIGNING, SIGNING_PUBLIC, public_text, write_key
from prunefl.engines.flower.status_view import token_digest
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically, write_private

REGISTER = "nodes.json"
VIEWER, TOKEN, TOKEN_DIGEST = "viewer", "status.token", "viewer.sha256"


def make_keys(folder: Path, hosts: Sequence[str], clients: int, days: int, renew: bool = False) -> list[Path]:
    """Return the files written. What exists is kept, so a later call only adds clients.

    The folder belongs on the server (without `ca.key`, which is best kept offline); each `client-I` folder
    inside goes to one client.

    Args:
        hosts: names and addresses under which clients reach the server.
        clients: how many clients there shall be in all.
        days: how long certificates are valid.
        renew: issue a new server certificate, for other hosts or a later date.
    """
    if clients < 1:
        raise PruneFLError(f"clients={clients}, must be >= 1")
    if days < 1:
        raise PruneFLError(f"days={days}, must be >= 1")
    folder.mkdir(parents=True, exist_ok=True)
    written = make_authority(folder, days)
    if renew or not (folder / f"{SERVER}.pem").exists():
        written += make_server_certificate(folder, hosts, days)
    return (
        written
        + _make_viewer(folder)
        + _make_signing_key(folder)
        + _make_node_keys(folder, clients)
        + _share_public_keys(folder)
    )


def _make_signing_key(folder: Path) -> list[Path]:
    """Make the key with which the server signs its messages, on the curve of the node keys."""
    if (folder / SIGNING).exists():
        return []
    key = ec.generate_private_key(ec.SECP384R1())
    public = write_atomically(folder / SIGNING_PUBLIC, public_text(key.public_key()).encode(), mode=0o644)
    return [write_key(folder / SIGNING, key), public]


def _share_public_keys(folder: Path) -> list[Path]:
    """Give every client's folder the server's public key, and all clients', for which nobody takes its word."""
    written = []
    for name in (SIGNING_PUBLIC, REGISTER):
        content = (folder / name).read_bytes()
        homes = [home for home in sorted(folder.glob("client-*")) if home.is_dir()]
        stale = [home / name for home in homes if not _holds(home / name, content)]
        written += [write_atomically(path, content, mode=0o644) for path in stale]
    return written


def _holds(path: Path, content: bytes) -> bool:
    return path.exists() and path.read_bytes() == content


def revoke(folder: Path, client: int) -> None:
    """Take a client's key out of the register: a running server lets it in no more within seconds."""
    register = read_register(folder)
    if client not in register:
        known = ", ".join(map(str, sorted(register))) or "nobody"
        raise PruneFLError(f"--revoke {client}: not in {folder / REGISTER}, which has {known}")
    del register[client]
    _write_register(folder, register)


def list_keys(folder: Path) -> list[str]:
    """Return a line for each client that may join, with the fingerprint of its key."""
    rows = sorted(read_register(folder).items())
    return [f"client {client}  {hashlib.sha256(text.encode()).hexdigest()[:16]}" for client, text in rows]


def _write_register(folder: Path, register: Mapping[int, str]) -> Path:
    lines = {str(client): register[client] for client in sorted(register)}
    return write_atomically(folder / REGISTER, json.dumps(lines, indent=2).encode() + b"\n", mode=0o644)


def _make_viewer(folder: Path) -> list[Path]:
    """Make the token that shows a run's status to who has it, unless there is one; the server keeps its digest."""
    if (folder / TOKEN_DIGEST).exists():
        return []
    home = folder / VIEWER
    home.mkdir(mode=0o700, exist_ok=True)
    token = secrets.token_hex(32)
    write_private(home / TOKEN, token.encode())
    write_atomically(home / f"{AUTHORITY}.pem", (folder / f"{AUTHORITY}.pem").read_bytes(), mode=0o644)
    write_atomically(folder / TOKEN_DIGEST, token_digest(token).encode(), mode=0o644)
    return [home]


def read_token(folder: Path) -> str:
    """Return the token of a viewer's folder."""
    try:
        return (folder / TOKEN).read_text().strip()
    except (OSError, UnicodeDecodeError):
        raise PruneFLError(
            f"{folder / TOKEN}: cannot be read; give --keys the viewer folder made by: prunefl keys"
        ) from None


def read_token_digest(folder: Path) -> str:
    """Return the digest of the token that shows the status, "" where none was made."""
    path = folder / TOKEN_DIGEST
    return path.read_text().strip() if path.exists() else ""


def _make_node_keys(folder: Path, clients: int) -> list[Path]:
    """Give every client that has none a key of its own, and enter its public half in the register."""
    register = read_register(folder) if (folder / REGISTER).exists() else {}
    written = []
    for client in range(clients):
        if client in register:
            continue
        home = folder / f"client-{client}"
        home.mkdir(mode=0o700, exist_ok=True)
        key = ec.generate_private_key(ec.SECP384R1())
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        write_private(home / NODE, text)
        write_atomically(home / f"{AUTHORITY}.pem", (folder / f"{AUTHORITY}.pem").read_bytes(), mode=0o644)
        register[client] = public_text(key.public_key())
        written.append(home)
    return [*written, _write_register(folder, register)]


def read_register(folder: Path) -> dict[int, str]:
    """Return the public key (PEM) that each client is known by."""
    path = folder / REGISTER
    try:
        entries = json.loads(path.read_text())
        return {int(client): str(text) for client, text in entries.items()}
    except FileNotFoundError:
        raise PruneFLError(
            f"{path}: no such file; make the federation's keys with: prunefl keys {folder}"
        ) from None
    except (ValueError, AttributeError) as error:
        raise PruneFLError(f"{path}: not a register of node keys ({error})") from None
