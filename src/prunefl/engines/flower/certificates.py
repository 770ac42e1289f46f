"""The federation's certificates: its authority's, and the server's that clients check."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from prunefl.engines.flower.key_files import Key, read_key, write_key
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically

AUTHORITY, SERVER = "ca", "server"

# The server's own processes reach the SuperLink over loopback, whatever name clients use.
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def make_authority(folder: Path, days: int) -> list[Path]:
    """Make the authority unless there is one, four times as long valid; return the files written."""
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
        write_key(folder / f"{AUTHORITY}.key", key),
        _write_pem(folder / f"{AUTHORITY}.pem", certificate),
    ]


def make_server_certificate(folder: Path, hosts: Sequence[str], days: int) -> list[Path]:
    """Have the authority vouch for a new key of the server under these names; return the files written."""
    authority = read_certificate(folder / f"{AUTHORITY}.pem")
    signer = read_key(folder / f"{AUTHORITY}.key")
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
    return [write_key(folder / f"{SERVER}.key", key), _write_pem(folder / f"{SERVER}.pem", certificate)]


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
    if read_key(folder / f"{SERVER}.key").public_key() != certificate.public_key():
        raise PruneFLError(f"{path}: belongs to another key than {SERVER}.key; renew both with --renew")


def _start_certificate(subject: x509.Name, issuer: x509.Name, key: Key, days: int) -> x509.CertificateBuilder:
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


def _write_pem(path: Path, certificate: x509.Certificate) -> Path:
    return write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
