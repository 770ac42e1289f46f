"""Serve the dashboard until it is stopped, or until the command that started it has ended."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunefl.dashboard.access import Terms, check_terms
from prunefl.dashboard.hub import Hub, refuse_empty
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_private

Say = Callable[[str], None]


@dataclass(frozen=True)
class DashboardOptions:
    """What a dashboard is started with.

    Attributes:
        folders: run folders, or folders that hold them.
        cert, key: files for TLS, or None.
        behind_proxy: a proxy with TLS stands before it.
        token: file with the token, made if it is not there; None for none.
        parent: number of the process that it shall not outlive, 0 for none. Its runs may yet have to begin.
    """

    folders: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 8642
    cert: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    token: Path | None = None
    parent: int = 0


def require_dashboard() -> None:
    """Say in one line how to install what the dashboard needs, where it is missing."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise PruneFLError(f"the dashboard needs {error.name}: pip install 'prunefl[dashboard]'") from None


def serve_dashboard(options: DashboardOptions, say: Say) -> None:
    """Serve the page; PruneFLError in one line if it cannot be."""
    require_dashboard()
    import uvicorn

    from prunefl.dashboard.app import make_app

    if (options.cert is None) != (options.key is None):
        raise PruneFLError("--cert and --key belong together: give both, or neither")
    token = _read_token(options.token) if options.token else ""
    terms = Terms(options.host, token, options.cert is not None, options.behind_proxy)
    check_terms(terms)
    if not options.parent:
        refuse_empty(options.folders)
    with open_socket(options.host, options.port) as listening:
        hub = Hub(options.folders)
        hub.look()
        config = uvicorn.Config(
            "",
            ssl_certfile=options.cert,
            ssl_keyfile=options.key,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            proxy_headers=False,
            ws="none",
        )
        server = uvicorn.Server(config)

        def is_wanted() -> bool:
            wanted = not options.parent or os.getppid() == options.parent
            server.should_exit = server.should_exit or not wanted
            return wanted and not server.should_exit

        config.app = make_app(hub, terms, is_wanted)
        say(f"dashboard: {address_of(options, listening)}")
        server.run(sockets=[listening])


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; PruneFLError if nobody can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(64)
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else "must be from 0 to 65535"
        raise PruneFLError(f"cannot listen on {host}:{port} ({why}); give another --port or --host") from None
    return listening


def address_of(options: DashboardOptions, listening: socket.socket) -> str:
    """Return the address to open; with the token only where a file holds it, which is named instead."""
    scheme = "https" if options.cert else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    token = f" with ?token= and what is in {options.token}" if options.token else ""
    return f"{scheme}://{host}:{listening.getsockname()[1]}/{token}"


def _read_token(path: Path) -> str:
    """Return the token in the file; one is made up where there is no file."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode() + b"\n")
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or set(token) & set(' ",;\\'):
        raise PruneFLError(f"--token {path}: must hold at least 16 letters and digits in one line")
    return token


def command_of(folders: Sequence[Path], port: int, parent: int) -> list[str]:
    """Return the arguments of `prunefl` for a dashboard beside a command that is at work."""
    return ["dashboard", *map(str, folders), "--port", str(port), "--parent", str(parent)]
