"""What a user sees: one line for each mistake, and a status that can be read at a glance."""

import json
import socket
import ssl
import threading
import time

import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.commands.status import fitted, lines
from prunefl.config import Config
from prunefl.engines.flower import join, keys, serve
from prunefl.engines.flower.codec import read_counts
from prunefl.engines.flower.membership import Member
from prunefl.engines.flower.status import Status, read_status
from prunefl.system.locks import hold


def complaint(*words: str) -> str:
    """Return the message of the ValueError with which a command ends."""
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, ValueError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys")
    keys.make_keys(path, [], 1, days=1)
    return path


def test_a_taken_port_is_named_before_anything_starts(folder, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        place = ["--host", "127.0.0.1", "--port", port, "--out", str(tmp_path)]
        words = complaint("server", "digits", "--keys", str(folder), *place)
    assert f"127.0.0.1:{port}" in words
    assert "give another --port" in words


def test_insecure_has_to_be_asked_for():
    assert "--insecure" in complaint("server", "digits")
    assert "--insecure" in complaint("client", "--server", "h:1", "--client", "0")


def test_keys_and_insecure_exclude_each_other(folder):
    for words in (["server", "digits"], ["client", "--server", "h:1", "--client", "0"]):
        assert "either" in complaint(*words, "--keys", str(folder), "--insecure")


def test_an_insecure_server_listens_on_this_machine_only(monkeypatch):
    seen = []
    monkeypatch.setattr("prunefl.engines.flower.serve.serve", lambda options, say: seen.append(options.host))
    CliRunner().invoke(app, ["server", "digits", "--insecure"])
    CliRunner().invoke(app, ["server", "digits", "--insecure", "--host", "192.0.2.1"])
    assert seen == ["127.0.0.1", "192.0.2.1"]


@pytest.mark.parametrize("address", ["pi.local", ":9092", "pi.local:", "pi:99999", "pi:x"])
def test_an_address_that_is_none_is_named(address, folder, tmp_path):
    given = ["--keys", str(folder / "client-0"), "--state", str(tmp_path)]
    assert "must be HOST:PORT" in complaint("client", "--server", address, "--client", "0", *given)


def test_missing_keys_are_named_with_the_command_that_makes_them(tmp_path):
    assert "cannot read the certificate" in complaint("server", "digits", "--keys", str(tmp_path))
    client = ["client", "--server", "h:1", "--state", str(tmp_path / "s"), "--keys"]
    assert "cannot read the node key" in complaint(*client, str(tmp_path), "--client", "0")
    assert "no such folder: it must be this client's, made by `prunefl keys`" in complaint(*client, "none")


def test_two_clients_cannot_share_a_state(tmp_path):
    refused = pytest.raises(ValueError, match="is at work there")
    member = join.ClientOptions("127.0.0.1:1", 0, "", None, tmp_path)
    with hold(tmp_path), refused:
        join.join(member, print)


def test_two_servers_cannot_share_a_folder(tmp_path):
    refused = pytest.raises(ValueError, match="is at work there")
    options = serve.ServerOptions(Config(), tmp_path, None, "127.0.0.1", 0)
    with hold(tmp_path), refused:
        serve.serve(options, print)


def test_a_server_without_tls_is_told_from_one_with(folder):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(5)
        port = server.getsockname()[1]

        def answer():
            line, _ = server.accept()
            line.recv(5)
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            line.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="does not speak TLS"):
            join.wait_for_server("127.0.0.1", port, folder / "client-0", lambda words: None)
        thread.join()


def test_an_unknown_host_is_an_error_not_a_wait(folder, monkeypatch):
    def nowhere(*_, **__):
        # what a resolver says that was reached; one that was not says EAI_AGAIN
        raise socket.gaierror(socket.EAI_NONAME, "Name or options not known")

    monkeypatch.setattr(socket, "create_connection", nowhere)
    with pytest.raises(ValueError, match="no such host"):
        join.wait_for_server("nowhere.invalid", 9092, folder / "client-0", lambda words: None)


def test_a_server_that_closes_the_line_is_waited_for_if_it_speaks_no_tls(monkeypatch):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        def close():
            # once for our question, once for the look whether it is TLS
            for _ in range(2):
                line, _ = server.accept()
                line.recv(100)
                line.close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(ConnectionResetError):
            join.probe("127.0.0.1", port, None)
        thread.join()


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    ],
)
def test_a_server_that_is_away_is_waited_for(monkeypatch, error):
    tries = iter([error] * 3)
    words, naps = [], []

    def probe(*_):
        error = next(tries, None)
        if error:
            raise error

    monkeypatch.setattr(join, "probe", probe)
    monkeypatch.setattr(time, "sleep", naps.append)
    join.wait_for_server("h", 1, None, words.append)
    assert naps == [1.0, 2.0, 4.0]
    assert f"does not answer ({error.strerror})" in words[0]


def test_a_certificate_error_of_every_kind_has_a_remedy():
    error = ssl.SSLCertVerificationError()
    for words, remedy in [("certificate is not yet valid", "clock"), ("certificate has expired", "--renew")]:
        error.verify_message = words
        assert remedy in join.explain_certificate_error("h", 1, error)


def test_the_status_shows_round_nodes_density_and_bytes(tmp_path):
    members = {
        0: Member(0, 5, online=True, num_samples=60, last_seen=990.0),
        1: Member(1, refusals=2, refusal="late"),
    }
    record = {
        "round": 7,
        "density": 0.25,
        "loss": 0.5,
        "total": {"bytes_up": 3_000_000, "bytes_down": 1_500_000},
    }
    Status(tmp_path, 90, members, "training", record).write(now=True)
    shown = lines({**read_status(tmp_path), "updated": 998.0}, 1000.0)
    assert shown[0] == "training: round 7 of 90, density 0.2500, 3.0 MB up, 1.5 MB down, 2 s ago"
    assert shown[2].split() == ["0", "there", "10", "s", "ago", "60", "0"]
    assert shown[3].split() == ["1", "away", "never", "0", "2"]
    assert shown[4:] == ["last refusal of client 1: late"]


def test_the_status_shows_the_accuracy_of_each_client_that_holds_samples_out(tmp_path):
    members = {
        0: Member(0, 5, online=True, num_samples=60, held_out=12, accuracy=0.75, last_seen=990.0),
        1: Member(1, online=True, num_samples=50, held_out=10, last_seen=990.0),
    }
    status = Status(tmp_path, 90, members, "training")
    status.evaluation = {"accuracy": 0.75, "worst_tenth": 0.5}
    status.write(now=True)
    shown = lines({**read_status(tmp_path), "updated": 998.0}, 1000.0)
    assert "accuracy at the clients 0.7500 (worst tenth 0.5000)" in shown[0]
    assert shown[1].split()[:6] == ["client", "state", "last", "heard", "samples", "accuracy"]
    assert shown[2].split() == ["0", "there", "10", "s", "ago", "60", "0.7500", "0"]
    assert shown[3].split() == ["1", "there", "10", "s", "ago", "50", "-", "0"]


def test_a_status_with_all_that_it_can_show_fits_a_terminal(tmp_path, monkeypatch):
    whole = {"held_out": 12, "accuracy": 0.75, "by_class": (400, 300, 200), "refusals": 3, "personal": 0.875}
    members = {n: Member(n, online=True, num_samples=888, last_seen=990.0, **whole) for n in (0, 150)}
    members[150].refusal = "round 12: " + "an update that is much too long " * 4
    status = Status(tmp_path, 9000, members, "training", classes=("crack", "dent", "ok"))
    status.evaluation = {"accuracy": 0.75, "worst_tenth": 0.5}
    status.write(now=True)
    said = lines(read_status(tmp_path), 1000.0)
    assert max(map(len, said[1:4])) <= 80
    # a pipe gets whole lines, a terminal the same words
    assert fitted(said) == said
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    broken = fitted(said)
    assert max(map(len, broken)) <= 80
    assert " ".join(broken).split() == " ".join(said).split()
    assert broken[-3:-1] != said[-3:-1]


def test_a_status_is_written_at_most_once_a_second(tmp_path):
    status = Status(tmp_path, 9)
    status.write()
    status.phase = "training"
    status.write()
    assert json.loads((tmp_path / "status.json").read_text())["phase"] == "starting"


def test_a_folder_without_a_run_is_named(tmp_path):
    assert "prunefl server" in complaint("status", str(tmp_path))


def test_the_status_shows_samples_by_class_and_how_uneven_they_are(tmp_path):
    members = {
        0: Member(0, online=True, num_samples=40, held_out=10, by_class=(20, 30, 0), last_seen=990.0),
        1: Member(1, online=True, num_samples=30, by_class=(0, 20, 10), last_seen=990.0),
        2: Member(2, online=True, num_samples=30, last_seen=990.0),
    }
    Status(tmp_path, 90, members, "training", classes=("crack", "dent", "ok")).write(now=True)
    shown = lines(read_status(tmp_path), 1000.0)
    assert shown[1].split()[:8] == ["client", "state", "last", "heard", "samples", "accuracy", "by", "class"]
    assert [row.split()[-2] for row in shown[2:5]] == ["20/30/0", "0/20/10", "-"]
    assert shown[5] == (
        "samples by class: crack 20, dent 50, ok 10; of dent there are 5.0 times as many as of ok"
    )
    # one that counts other classes than the run has spoils nothing
    members[2].by_class = (1, 2)
    members[0].by_class = (50, 0, 0)
    Status(tmp_path, 90, members, "training", classes=("crack", "dent", "ok")).write(now=True)
    assert lines(read_status(tmp_path), 1000.0)[5].endswith(
        "ok 10; of crack there are 5.0 times as many as of ok"
    )


def test_of_many_classes_the_most_and_least_frequent_are_named(tmp_path):
    names = [f"c{i}" for i in range(12)]
    members = {0: Member(0, online=True, num_samples=66, by_class=tuple(range(12)), last_seen=990.0)}
    Status(tmp_path, 90, members, "training", classes=names).write(now=True)
    shown = lines(read_status(tmp_path), 1000.0)
    assert "11 of 12" in shown[2]
    assert shown[3] == "samples by class: c11 11, c10 10, c9 9, c2 2, c1 1, c0 0, ...; there are none of c0"


@pytest.mark.parametrize(
    ("by_class", "words"),
    [([3, 3], "come to 6, but it has 5"), ([-1, 6], "come to 5"), ([1.5], "whole number"), ("x", "a list")],
)
def test_samples_by_class_that_cannot_be_are_refused(by_class, words):
    with pytest.raises(ValueError, match=words):
        read_counts({"by_class": by_class}, 5)
    assert read_counts({}, 5) == ()
    assert read_counts({"by_class": [2, 3]}, 5) == (2, 3)


def test_only_names_the_clients_that_take_part(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "prunefl.engines.flower.serve.serve", lambda options, say: seen.append(options.config.server.clients)
    )
    CliRunner().invoke(app, ["server", "digits", "--insecure", "--only", "0,3,5"])
    assert seen == [(0, 3, 5)]
    assert "must be numbers of clients, such as 0,3,5" in complaint(
        "server", "digits", "--insecure", "--only", "0;3"
    )
