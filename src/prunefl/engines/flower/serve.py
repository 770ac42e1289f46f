"""`prunefl server`: a SuperLink and the run, started, watched and ended together."""

import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from prunefl import config as settings
from prunefl.config import Config
from prunefl.engines.flower import Say, certificates, control, key_files, keys
from prunefl.engines.flower.processes import QUIET, RUN_FILE, SECRET_FILE, STATUS_FILE, VIEWER
from prunefl.engines.flower.server_app import RunOptions
from prunefl.engines.flower.status import FILE
from prunefl.engines.flower.supervise import ProcessGroup, Stopped, run_group, tail
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_private
from prunefl.system.locks import hold

START_SECONDS = 120.0


@dataclass(frozen=True)
class ServerOptions:
    """What a server is started with.

    Attributes:
        config: the run's settings.
        folder: the run's folder; Flower's logs go to its `logs`.
        keys: folder that `prunefl keys` made; None for a federation without encryption and identity.
        host: address to listen on.
    """

    config: Config
    folder: Path
    keys: Path | None
    host: str
    port: int
    resume: bool = False


def serve(options: ServerOptions, say: Say) -> None:
    """Run the federation to its end; ValueError in one line if it cannot."""
    register = {}
    if options.keys is not None:
        certificates.check_server_files(options.keys)
        key_files.read_signing_key(options.keys)
        register = keys.read_register(options.keys)
    refuse_taken_port(options.host, options.port)
    with hold(options.folder):
        secret = write_private(options.folder / ".secret", secrets.token_bytes(32))
        environment = {
            **QUIET,
            SECRET_FILE: str(secret),
            RUN_FILE: str(options.folder.resolve() / ".run.json"),
            VIEWER: keys.read_token_digest(options.keys) if options.keys else "",
            STATUS_FILE: str(options.folder.resolve() / FILE),
            "FLWR_HOME": str(options.folder / "flower"),
        }
        try:
            with run_group(options.folder / "logs", environment) as group:
                group.start("flower", ["prunefl.engines.flower.processes", *link_arguments(options, secret)])
                _run(options, group, register, secret, say)
        except Stopped as stopped:
            say(f"stopped by {stopped}; go on later with --resume")
        finally:
            secret.unlink(missing_ok=True)


def _run(
    options: ServerOptions, group: ProcessGroup, register: dict[int, str], secret: Path, say: Say
) -> None:
    log = options.folder / "logs" / "flower.log"
    roots = options.keys / "ca.pem" if options.keys else None
    address = f"{local_address(options.host)}:{options.port}"
    try:
        control.wait_until_healthy(address, roots, START_SECONDS, group.find_ended)
    except ValueError as error:
        raise PruneFLError(f"{error}: {tail(log)}; see {log}") from None
    written = options.folder / "server.toml"
    write_private(written, settings.dump(options.config).encode())
    with control.connect(address, secret.read_bytes(), roots) as client:
        start = log.stat().st_size
        nodes = control.register_nodes(client, register)
        chosen = RunOptions(written, options.folder, nodes, options.keys, options.resume)
        chosen.write(options.folder / ".run.json")
        run = control.start_run(client)
        say(f"listening on {options.host}:{options.port}, {len(register) or 'any'} clients may join")
        while True:
            start = _pass_on(log, start, say)
            _drop_revoked(client, options, nodes, say)
            if group.find_ended():
                raise PruneFLError(f"Flower ended unexpectedly: {tail(log)}; see {log}")
            try:
                status, how, why = control.run_status(client, run)
            except httpx.TransportError:
                # a busy SuperLink may be late; if it has ended, its process says so
                time.sleep(1.0)
                continue
            if status == "finished":
                _pass_on(log, start, say)
                if how != "completed":
                    raise PruneFLError(f"{_strip_reason(why)}; see {log}")
                return
            time.sleep(1.0)


def _drop_revoked(client: Any, options: ServerOptions, nodes: dict[int, int], say: Say) -> None:
    """Let in no more whose key is no longer in the register."""
    if options.keys is None:
        return
    try:
        register = keys.read_register(options.keys)
    except PruneFLError:
        # it is read again in a second; a server does not end for it
        return
    for node, number in list(nodes.items()):
        if number not in register:
            control.unregister_node(client, node)
            del nodes[node]
            say(f"client {number}: its key was revoked, it is let in no more")


def _pass_on(log: Path, start: int, say: Say) -> int:
    """Pass on what the run has said since; return where to look next time."""
    with log.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    for line in data[:whole].decode(errors="replace").splitlines():
        if line.startswith("prunefl: "):
            say(line.removeprefix("prunefl: "))
    return start + whole


def _strip_reason(details: str) -> str:
    return details.removeprefix("ServerApp failed with exception: ").strip() or "the run failed"


def link_arguments(options: ServerOptions, secret: Path) -> list[str]:
    """Return the arguments of SuperLink and SuperExec."""
    address = f"{local_address(options.host)}:{options.port}"
    common = ["--superexec-auth-secret-file", str(secret)]
    place = ["--host", options.host, "--port", str(options.port), "--isolation", "process", *common]
    files, trust = ["--insecure"], ["--insecure"]
    if (folder := options.keys) is not None:
        files = ["--ssl-certfile", str(folder / "server.pem"), "--ssl-keyfile", str(folder / "server.key")]
        files += ["--ssl-ca-certfile", str(folder / "ca.pem"), "--enable-supernode-auth"]
        trust = ["--root-certificates", str(folder / "ca.pem")]
    return ["link", *place, *files, "--", "executor", "--runtime-api-address", address, *trust, *common]


def local_address(host: str) -> str:
    """Return the address at which this machine reaches itself when it listens on `host`."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}
    return everywhere.get(host, f"[{host}]" if ":" in host else host)


def refuse_taken_port(host: str, port: int) -> None:
    """Raise ValueError if nobody could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PruneFLError(
                f"cannot listen on {host}:{port} ({error.strerror}); give another --port or --host"
            ) from None
