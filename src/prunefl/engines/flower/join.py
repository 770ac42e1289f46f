"""`prunefl client`: a node and the resident worker, started, watched, restarted and ended together."""

import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

from prunefl.engines.flower import Say, certificates, key_files
from prunefl.engines.flower.limits import read_limits
from prunefl.engines.flower.own_data import Share, check_data
from prunefl.engines.flower.processes import NODE_FILE, QUIET, REFUSAL, REFUSED, SOCKET
from prunefl.engines.flower.supervise import Backoff, ProcessGroup, Stopped, run_group
from prunefl.system.errors import PruneFLError
from prunefl.system.locks import hold

CALM = 120.0
"""Seconds after which a connection counts as one that was made."""

COUNTS_AS_THERE = 90.0
"""Seconds after which a server counts no client any more that was killed, and some to spare."""


@dataclass(frozen=True)
class ClientOptions:
    """What a client is started with.

    Attributes:
        server: host:port of the server.
        client: its number in the federation.
        data: its own samples: a folder, a file or package.module:function; "" if it takes a share of the server's data.
        keys: the `client-I` folder that `prunefl keys` made; None for a federation without encryption.
        state: folder in which this client keeps its state.
        stay: wait for the next run when one is over.
        personal_steps: steps that it trains the final model for itself, which is then written to `out`.
        limits: file that says what it lets a server ask of it.
        tell_classes: whether the server is told how many samples of each class there are.
    """

    server: str
    client: int
    data: str
    keys: Path | None
    state: Path
    share: str = ""
    allowed: tuple[str, ...] = ()
    stay: bool = False
    personal_steps: int = 0
    out: Path | None = None
    limits: Path | None = None
    tell_classes: bool = True


def join(options: ClientOptions, say: Say) -> None:
    """Take part until the run is over; ValueError in one line if that is not possible."""
    host, port = parse_address(options.server)
    check_data(options.data, Share.parse(options.share) if options.share else None, options.allowed)
    say(read_limits(options.limits).describe())
    if options.keys is not None:
        key_files.check_node_key(options.keys / key_files.NODE)
        certificates.read_certificate(options.keys / "ca.pem")
        key_files.read_public_key(options.keys / key_files.SIGNING_PUBLIC)
    with hold(options.state):
        environment = {
            **QUIET,
            SOCKET: str(socket_path(options.state)),
            NODE_FILE: str(options.state / "node"),
            "FLWR_HOME": str(options.state / "flower"),
        }
        try:
            with run_group(options.state / "logs", environment) as group:
                _work(options, group, host, port, say)
        except Stopped as stopped:
            say(f"stopped by {stopped}")


def _work(options: ClientOptions, group: ProcessGroup, host: str, port: int, say: Say) -> None:
    """Keep worker and node running until the server says that the run is over."""
    backoff, tries = {"worker": Backoff(), "flower": Backoff()}, 0
    begun = first = time.monotonic()
    log = options.state / "logs" / "flower.log"
    start_worker(options, group)
    wait_for_server(host, port, options.keys, say)
    start_node(options, group)
    while True:
        time.sleep(0.2)
        for name in group.find_ended():
            code = group.processes.pop(name).returncode
            if name == "worker" and code == REFUSED:
                raise PruneFLError((options.state / REFUSAL).read_text())
            if name == "worker" and code == 0:
                if not options.stay:
                    return
                start_worker(options, group)
                continue
            in_use = name == "flower" and is_key_in_use(log)
            if name == "flower" and has_refused_key(log):
                # a node that was there for a while is refused for another reason than its key
                tries = tries + 1 if time.monotonic() - begun < CALM else 1
                first = begun if tries == 1 else first
                if tries > 1 and not (in_use and time.monotonic() - first < COUNTS_AS_THERE):
                    raise PruneFLError(explain_refusal(options, in_use))
            wait = backoff[name].next()
            say(f"{_explain_end(name, code, log)}; again in {wait:.0f} s")
            time.sleep(wait)
            if name == "worker":
                start_worker(options, group)
            else:
                wait_for_server(host, port, options.keys, say)
                begun = time.monotonic()
                start_node(options, group)


def _explain_end(name: str, code: int, log: Path) -> str:
    if name == "worker":
        return f"the worker ended with code {code} (see {log.with_name('worker.log')})"
    if is_key_in_use(log):
        return "the server still counts a client with this key as there, as it does for a minute after one was killed"
    return "the connection to the server is lost"


def start_worker(options: ClientOptions, group: ProcessGroup) -> None:
    """Start the process that holds torch, the model and the data; what it says goes to the user."""
    place = [str(options.state), str(options.client), str(socket_path(options.state))]
    place += [str(path.resolve()) if path else "" for path in (options.keys, options.limits)]
    own = [options.data, options.share]
    personal = [str(options.personal_steps), str(options.out.resolve()) if options.out else ""]
    told = "tell" if options.tell_classes else ""
    arguments = ["prunefl.engines.flower.worker", *place, *own, *personal, told, *options.allowed]
    group.start("worker", arguments, show=True)


def start_node(options: ClientOptions, group: ProcessGroup) -> None:
    """Start the process that is connected to the server."""
    (options.state / "logs").mkdir(parents=True, exist_ok=True)
    (options.state / "logs" / "flower.log").write_bytes(b"")
    keys = str(options.keys.resolve()) if options.keys else ""
    group.start("flower", ["prunefl.engines.flower.node", options.server, keys])


def wait_for_server(host: str, port: int, folder: Path | None, say: Say) -> None:
    """Return when the server can be reached; ValueError if our authority does not vouch for it."""
    backoff = Backoff(limit=10.0)
    while True:
        try:
            probe(host, port, folder)
            return
        except ssl.SSLCertVerificationError as error:
            raise PruneFLError(explain_certificate_error(host, port, error)) from None
        except OSError as error:
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise PruneFLError(
                    f"{host}:{port} does not speak TLS ({error.reason}); is it started with --insecure?"
                ) from None
            if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
                raise PruneFLError(f"--server {host}:{port}: no such host ({error.strerror})") from None
            wait = backoff.next()
            say(f"{host}:{port} does not answer ({error.strerror or error}); trying again in {wait:.0f} s")
            time.sleep(wait)


def probe(host: str, port: int, folder: Path | None) -> None:
    """Open a connection as the node will, and close it."""
    with socket.create_connection((host, port), timeout=10.0) as line:
        if folder is not None:
            context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            with context.wrap_socket(line, server_hostname=host):
                return
        line.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        answer = line.recv(5)
    if not answer and not speaks_tls(host, port):
        # a server that is just starting, or ending
        raise ConnectionResetError("the connection was closed")
    if not answer.startswith(b"HTTP/"):
        raise PruneFLError(f"{host}:{port} wants encryption and a key; give --keys instead of --insecure")


def speaks_tls(host: str, port: int) -> bool:
    """Return whether a server answers in TLS, whoever it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=10.0) as line,
            context.wrap_socket(line, server_hostname=host),
        ):
            return True
    except OSError:
        return False


def explain_certificate_error(host: str, port: int, error: ssl.SSLCertVerificationError) -> str:
    """Return one line: what is wrong with the server's certificate, and who can mend it."""
    words = error.verify_message
    if "expired" in words:
        remedy = "renew it on the server with: prunefl keys DIR --renew"
    elif "mismatch" in words or "not valid for" in words:
        remedy = f"issue one for this name on the server with: prunefl keys DIR --renew --host {host}"
    elif "not yet valid" in words:
        remedy = "set this machine's clock"
    else:
        remedy = "take ca.pem from the folder that was made for this federation"
    return f"{host}:{port}: its certificate is not accepted ({words}); {remedy}"


def has_refused_key(log: Path) -> bool:
    """Return whether the SuperLink did not want this node's key."""
    words = log.read_text(errors="replace") if log.exists() else ""
    return "Failed to initialize the connection" in words


def is_key_in_use(log: Path) -> bool:
    """Return whether the SuperLink counts a node with this key as there."""
    return "Failed to activate SuperNode" in (log.read_text(errors="replace") if log.exists() else "")


def explain_refusal(options: ClientOptions, in_use: bool) -> str:
    """Return one line for a key that the server does not know, or knows as that of a client that is there."""
    if options.keys is None:
        return f"{options.server} refuses nodes without a key; give --keys the folder made by: prunefl keys"
    key = options.keys / key_files.NODE
    if in_use:
        return f"{options.server}: another client uses the key {key} now; use the folder made for this client"
    return (
        f"{options.server} does not know this node's key {key}; use the folder made for this client, and restart the "
        "server after adding clients by `prunefl keys`"
    )


def parse_address(server: str) -> tuple[str, int]:
    """Return host and port of a text like pi.local:9092 or [::1]:9092."""
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
        raise PruneFLError(f"--server {server!r}, must be HOST:PORT, such as pi.local:9092")
    return host.strip("[]"), int(port)


def socket_path(state: Path) -> Path:
    """Return where the worker listens: in a folder that only this user can enter."""
    return state.resolve() / "private" / "worker.sock"


def free_port() -> int:
    """Return a port of this machine on which nobody listens now."""
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        return int(probe_socket.getsockname()[1])
