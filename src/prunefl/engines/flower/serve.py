"""`prunefl server`: a SuperLink and the run, started, watched and ended together."""

import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from prunefl import config as settings
from prunefl.config import Config
from prunefl.engines.flower import control, keys
from prunefl.engines.flower.processes import QUIET, SECRET_FILE
from prunefl.engines.flower.supervise import Crew, Stopped, crew, last_words
from prunefl.system.files import write_private
from prunefl.system.locks import hold

START_SECONDS = 120.0


@dataclass(frozen=True)
class Service:
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


def serve(service: Service, say: Callable[[str], None]) -> None:
    """Run the federation to its end; ValueError in one line if it cannot."""
    register = {}
    if service.keys is not None:
        keys.check_server_files(service.keys)
        register = keys.read_register(service.keys)
    refuse_taken_port(service.host, service.port)
    with hold(service.folder):
        secret = write_private(service.folder / ".secret", secrets.token_bytes(32))
        environment = {**QUIET, SECRET_FILE: str(secret), "FLWR_HOME": str(service.folder / "flower")}
        try:
            with crew(service.folder / "logs", environment) as members:
                members.start(
                    "flower", ["prunefl.engines.flower.processes", *link_arguments(service, secret)]
                )
                _run(service, members, register, secret, say)
        except Stopped as stopped:
            say(f"stopped by {stopped}; go on later with --resume")
        finally:
            secret.unlink(missing_ok=True)


def _run(
    service: Service, members: Crew, register: dict[int, str], secret: Path, say: Callable[[str], None]
) -> None:
    log = service.folder / "logs" / "flower.log"
    roots = service.keys / "ca.pem" if service.keys else None
    address = f"{local_address(service.host)}:{service.port}"
    try:
        control.wait_until_healthy(address, roots, START_SECONDS, members.ended)
    except ValueError as error:
        raise ValueError(f"{error}: {last_words(log)}; see {log}") from None
    written = service.folder / "server.toml"
    write_private(written, settings.dump(service.config).encode())
    options: dict[str, str | bool] = {
        "config": str(written.resolve()),
        "folder": str(service.folder.resolve()),
        "resume": service.resume,
    }
    with control.connect(address, secret.read_bytes(), roots) as client:
        start = log.stat().st_size
        run = control.start_run(client, register, options)
        say(f"listening on {service.host}:{service.port}, {len(register) or 'any'} clients may join")
        while True:
            start = _show(log, start, say)
            if members.ended():
                raise ValueError(f"Flower ended unexpectedly: {last_words(log)}; see {log}")
            try:
                status, how, why = control.run_status(client, run)
            except httpx.TransportError:
                # a busy SuperLink may be late; if it has ended, its process says so
                time.sleep(1.0)
                continue
            if status == "finished":
                _show(log, start, say)
                if how != "completed":
                    raise ValueError(f"{_reason(why)}; see {log}")
                return
            time.sleep(1.0)


def _show(log: Path, start: int, say: Callable[[str], None]) -> int:
    """Pass on what the run has said since; return where to look next time."""
    with log.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    for line in data[:whole].decode(errors="replace").splitlines():
        if line.startswith("prunefl: "):
            say(line.removeprefix("prunefl: "))
    return start + whole


def _reason(details: str) -> str:
    return details.removeprefix("ServerApp failed with exception: ").strip() or "the run failed"


def link_arguments(service: Service, secret: Path) -> list[str]:
    """Return the arguments of SuperLink and SuperExec."""
    address = f"{local_address(service.host)}:{service.port}"
    common = ["--superexec-auth-secret-file", str(secret)]
    place = ["--host", service.host, "--port", str(service.port), "--isolation", "process", *common]
    if service.keys is None:
        return [
            "link",
            *place,
            "--insecure",
            "--",
            "executor",
            "--runtime-api-address",
            address,
            "--insecure",
            *common,
        ]
    folder = service.keys
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
            raise ValueError(
                f"cannot listen on {host}:{port} ({error.strerror}); give another --port or --host"
            ) from None
