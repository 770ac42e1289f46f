"""Keys that TLS itself accepts, and refuses for the right reason."""

import json
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from prunefl.engines.flower import certificates, join, key_files, keys

HOST = "federation.example"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys")
    keys.make_keys(path, [HOST, "192.0.2.7"], clients=2, days=30)
    return path


def handshake(server: Path, client: Path, name: str) -> None:
    """Do a TLS handshake over a socket pair, with the server's certificate and the client's authority."""
    here, there = socket.socketpair()
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(server / "server.pem", server / "server.key")

    def accept() -> None:
        try:
            with accepting.wrap_socket(there, server_side=True):
                pass
        except (ssl.SSLError, OSError):
            there.close()

    thread = threading.Thread(target=accept)
    thread.start()
    context = ssl.create_default_context(cafile=str(client / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        with context.wrap_socket(here, server_hostname=name):
            pass
    finally:
        here.close()
        thread.join()


@pytest.mark.parametrize("name", [HOST, "192.0.2.7", "localhost", "127.0.0.1"])
def test_a_client_accepts_the_server_under_every_name_it_was_made_for(folder, name):
    handshake(folder, folder / "client-1", name)


def test_another_name_is_refused_with_the_command_that_mends_it(folder):
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        handshake(folder, folder / "client-0", "other.example")
    words = join.explain_certificate_error("other.example", 9092, caught.value)
    assert "prunefl keys DIR --renew --host other.example" in words
    assert "\n" not in words


def test_another_authority_is_refused_and_the_client_told_which_file_to_take(folder, tmp_path):
    keys.make_keys(tmp_path, [HOST], clients=1, days=30)
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        handshake(folder, tmp_path / "client-0", HOST)
    assert "ca.pem" in join.explain_certificate_error(HOST, 9092, caught.value)


def test_an_expired_certificate_is_refused_by_client_and_server(tmp_path, monkeypatch):
    keys.make_keys(tmp_path, [HOST], clients=1, days=30)

    class Past(certificates.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) - certificates.timedelta(days=20)

    with monkeypatch.context() as patch:
        patch.setattr(certificates, "datetime", Past)
        keys.make_keys(tmp_path, [HOST], clients=1, days=10, renew=True)
    with pytest.raises(ValueError, match=r"expired on .*prunefl keys .* --renew"):
        certificates.check_server_files(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        handshake(tmp_path, tmp_path / "client-0", HOST)
    assert "renew it on the server" in join.explain_certificate_error(HOST, 9092, caught.value)
    keys.make_keys(tmp_path, [HOST], clients=1, days=10, renew=True)
    certificates.check_server_files(tmp_path)


def test_secrets_can_be_read_by_their_owner_only(folder):
    secrets = [folder / "ca.key", folder / "server.key", folder / "client-0" / "node.key"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600] * 3
    assert stat.S_IMODE((folder / "client-0").stat().st_mode) == 0o700


def test_adding_clients_keeps_the_keys_that_exist(tmp_path):
    keys.make_keys(tmp_path, [HOST], clients=1, days=30)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    keys.make_keys(tmp_path, ["ignored.example"], clients=3, days=30)
    # the register has grown, and every client has it
    for register in (tmp_path / "nodes.json", tmp_path / "client-0" / "nodes.json"):
        del before[register]
        assert set(json.loads(register.read_text())) == {"0", "1", "2"}
    assert all(path.read_bytes() == content for path, content in before.items())
    assert sorted(keys.read_register(tmp_path)) == [0, 1, 2]


def test_the_register_holds_the_public_half_of_each_clients_key(folder):
    register = keys.read_register(folder)
    assert register[0] != register[1]
    assert all(key_files.check_node_key(folder / f"client-{n}" / "node.key") == register[n] for n in register)


def test_files_that_are_no_keys_are_named_in_one_line(folder, tmp_path):
    (tmp_path / "node.key").write_text("nothing")
    for path, words in [(tmp_path / "node.key", "not a node key"), (tmp_path / "none", "cannot read")]:
        with pytest.raises(ValueError, match=words) as caught:
            key_files.check_node_key(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="prunefl keys"):
        keys.read_register(tmp_path)
    with pytest.raises(ValueError, match="cannot read the certificate"):
        certificates.check_server_files(tmp_path)


def test_a_certificate_of_another_key_is_noticed(folder, tmp_path):
    keys.make_keys(tmp_path, [HOST], clients=1, days=30)
    (tmp_path / "server.key").write_bytes((folder / "server.key").read_bytes())
    with pytest.raises(ValueError, match="another key"):
        certificates.check_server_files(tmp_path)


@pytest.mark.parametrize(("clients", "days"), [(0, 30), (1, 0)])
def test_senseless_numbers_are_refused(tmp_path, clients, days):
    with pytest.raises(ValueError, match="must be >= 1"):
        keys.make_keys(tmp_path, [], clients, days)
