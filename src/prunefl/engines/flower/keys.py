"""Identity for a small federation: one authority, one server certificate, one key per client."""

import hashlib
import ipaddress
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from prunefl.engines.flower.status_view import token_digest
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically, write_private

AUTHORITY, SERVER, NODE, REGISTER = "ca", "server", "node.key", "nodes.json"
SIGNING, SIGNING_PUBLIC = "signing.key", "signing.pem"
"""The server signs its messages with the first; each client's folder has the second, to check that."""
VIEWER, TOKEN, TOKEN_DIGEST = "viewer", "status.token", "viewer.sha256"

# The server's own processes reach the SuperLink over loopback, whatever name clients use.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

_Key = ec.EllipticCurvePrivateKey


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
    written = _make_authority(folder, days)
    if renew or not (folder / f"{SERVER}.pem").exists():
        written += _make_server_certificate(folder, hosts, days)
    return (
        written
        + _make_viewer(folder)
        + _make_signing_key(folder)
        + _make_node_keys(folder, clients)
        + _share_public_key(folder)
    )


def _make_signing_key(folder: Path) -> list[Path]:
    """Make the key with which the server signs its messages, on the curve of the node keys."""
    if (folder / SIGNING).exists():
        return []
    key = ec.generate_private_key(ec.SECP384R1())
    public = write_atomically(folder / SIGNING_PUBLIC, public_text(key.public_key()).encode(), mode=0o644)
    return [_write_key(folder / SIGNING, key), public]


def _share_public_key(folder: Path) -> list[Path]:
    """Give the public half to every client's folder that does not have it."""
    public = (folder / SIGNING_PUBLIC).read_bytes()
    homes = [home for home in sorted(folder.glob("client-*")) if home.is_dir()]
    stale = [
        home / SIGNING_PUBLIC
        for home in homes
        if not (home / SIGNING_PUBLIC).exists() or (home / SIGNING_PUBLIC).read_bytes() != public
    ]
    return [write_atomically(path, public, mode=0o644) for path in stale]


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


def _make_authority(folder: Path, days: int) -> list[Path]:
    if (folder / f"{AUTHORITY}.pem").exists():
        return []
    key = ec.generate_private_key(ec.SECP256R1())
    name = _make_name("prunefl federation authority")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        _start_certificate(name, name, key, days * 4)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return [
        _write_key(folder / f"{AUTHORITY}.key", key),
        _write_pem(folder / f"{AUTHORITY}.pem", certificate),
    ]


def _make_server_certificate(folder: Path, hosts: Sequence[str], days: int) -> list[Path]:
    authority = read_certificate(folder / f"{AUTHORITY}.pem")
    signer = _read_key(folder / f"{AUTHORITY}.key")
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([_parse_host(host) for host in dict.fromkeys([*hosts, *LOOPBACK])])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _start_certificate(_make_name("prunefl server"), authority.subject, key, days)
        .add_extension(names, critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return [_write_key(folder / f"{SERVER}.key", key), _write_pem(folder / f"{SERVER}.pem", certificate)]


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


def read_certificate(path: Path) -> x509.Certificate:
    """Return a PEM certificate, or say in one line what is wrong with the file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise PruneFLError(f"{path}: cannot read the certificate ({error.strerror})") from None
    except ValueError:
        raise PruneFLError(f"{path}: not a PEM certificate") from None


def check_server_files(folder: Path) -> None:
    """Raise ValueError if the server could not use its certificate: unreadable, expired, or another key's."""
    certificate = read_certificate(folder / f"{SERVER}.pem")
    read_certificate(folder / f"{AUTHORITY}.pem")
    path = folder / f"{SERVER}.pem"
    now = datetime.now(UTC)
    if certificate.not_valid_after_utc < now:
        until = certificate.not_valid_after_utc.date()
        raise PruneFLError(f"{path}: expired on {until}; renew it with: prunefl keys {folder} --renew")
    if certificate.not_valid_before_utc > now:
        raise PruneFLError(f"{path}: valid only from {certificate.not_valid_before_utc}; is the clock right?")
    if _read_key(folder / f"{SERVER}.key").public_key() != certificate.public_key():
        raise PruneFLError(f"{path}: belongs to another key than {SERVER}.key; renew both with --renew")


def read_signing_key(folder: Path) -> _Key:
    """Return the key with which the server signs."""
    path = folder / SIGNING
    if not path.exists():
        raise PruneFLError(
            f"{path}: no such file; make it with: prunefl keys {folder}, and give each client its new {SIGNING_PUBLIC}"
        )
    return _read_key(path)


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


def check_node_key(path: Path) -> str:
    """Return the public half (PEM) of a client's key, or raise ValueError in one line."""
    return public_text(read_node_key(path).public_key())


def read_node_key(path: Path) -> _Key:
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


def public_text(key: ec.EllipticCurvePublicKey) -> str:
    """Return a public key as PEM, the form in which Flower registers it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


def _read_key(path: Path) -> _Key:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise PruneFLError(f"{path}: cannot read the key ({error.strerror})") from None
    except (ValueError, TypeError):
        raise PruneFLError(f"{path}: not a PEM private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PruneFLError(f"{path}: must be an elliptic-curve key")
    return key


def _start_certificate(
    subject: x509.Name, issuer: x509.Name, key: _Key, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour back: the clocks of small machines without a battery are often a little behind.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _parse_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: _Key) -> Path:
    form = serialization.PrivateFormat.PKCS8
    return write_private(
        path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )


def _write_pem(path: Path, certificate: x509.Certificate) -> Path:
    return write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
