"""Flower's own processes as this project needs them.

`python -m prunefl.engines.flower.processes link ARGS -- executor ARGS` runs a SuperLink and its SuperExec with their
usual arguments, as two forks of one process that has Flower loaded. It changes what their options cannot: who may talk
to the SuperLink, how soon a waiting message is noticed, and that the run is a fork. Only this file, forks.py, node.py,
parcel.py, server_app.py, shortcut.py, unpacking.py and control.py reach below Flower's public API; pyproject.toml pins
the versions with which they are tested.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from prunefl.engines.flower.forks import ForkExecutor, die_with_parent, end_with
from prunefl.system.errors import PruneFLError

SECRET_FILE = "PRUNEFL_SECRET_FILE"
RUN_FILE = "PRUNEFL_RUN_FILE"
NODE_FILE = "PRUNEFL_NODE_FILE"
SOCKET = "PRUNEFL_WORKER_SOCKET"
VIEWER, STATUS_FILE = "PRUNEFL_VIEWER", "PRUNEFL_STATUS_FILE"
"""Environment variables by which `prunefl server` and `prunefl client` tell these processes where things are."""

REFUSED, REFUSAL = 3, "refusal.txt"
"""Exit code of a worker that cannot take part in the run, and the file of its folder that says why."""

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_LOG_LEVEL": "WARNING",
}
"""Environment in which Flower reports nothing to anybody, installs nothing and logs only what went wrong."""


def patch(place: Any, **names: Any) -> None:
    """Give names of a Flower module or object other values; a Flower that has them no longer is refused in one line."""
    for name, value in names.items():
        if not hasattr(place, name):
            where = getattr(place, "__name__", type(place).__name__)
            raise PruneFLError(f"this version of Flower has no {where}.{name}; install flwr>=1.41,<1.43")
        setattr(place, name, value)


def run_superlink() -> None:
    """Run the SuperLink behind our access control."""
    import uvicorn
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    from prunefl.engines.flower.access import AccessControl
    from prunefl.engines.flower.bell import FILE as BELL
    from prunefl.engines.flower.bell import ring
    from prunefl.engines.flower.connections import Connections
    from prunefl.engines.flower.heard import FILE, Heard, HeardNodes
    from prunefl.engines.flower.shortcut import Shortcut
    from prunefl.engines.flower.status_view import StatusView
    from prunefl.engines.flower.waiting import WaitingRoom
    from prunefl.engines.flower.web_server import serve

    file, connections = Path(os.environ[SECRET_FILE]), Connections()
    options: dict[str, Any] = {
        "secret": file.read_bytes().hex().encode(),
        "connections": connections,
        "max_bytes": read_max_bytes,
        "keyed": "--enable-supernode-auth" in sys.argv,
    }
    heard, bell = Heard(file.with_name(FILE)), Path(os.environ[RUN_FILE]).with_name(BELL)
    before = (
        Middleware(AccessControl, **options),
        Middleware(WaitingRoom, heard=heard.note, ring=partial(ring, bell)),
        Middleware(HeardNodes, heard=heard),
        Middleware(Shortcut),
    )
    view = Middleware(StatusView, digest=os.environ[VIEWER], file=Path(os.environ[STATUS_FILE]))
    patch(extensions, get_middleware=lambda: (view, *before) if os.environ[VIEWER] else before)
    patch(uvicorn, run=partial(serve, connections))
    flower_superlink()


def read_max_bytes() -> int:
    """Return how large an answer of a node may be: what the run says, little before it does."""
    from prunefl.engines.flower.ledger import FREE_BYTES

    try:
        return int(max_bytes_file().read_text())
    except (OSError, ValueError):
        return FREE_BYTES


def max_bytes_file() -> Path:
    """Return where the run says how large an answer may be."""
    return Path(os.environ[RUN_FILE]).with_name(".max-bytes")


def shorten_waits() -> None:
    """Look again soon for a message's contents, and for a server that is away."""
    from flwr.supercore.inflatable import inflatable_utils
    from flwr.supercore.retry import http_retry

    for pull in (inflatable_utils.pull_objects, inflatable_utils.pull_and_inflate_object_from_tree):
        (pull.__kwdefaults__ or {})["initial_backoff"] = 0.05
    patch(http_retry, MAX_RETRY_DELAY=5)


def run_superexec() -> None:
    """Run the SuperExec, with the run as a fork."""
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec import run_superexec

    shorten_waits()
    patch(run_superexec, get_executor=lambda *_, **__: ForkExecutor())
    flower_superexec()


KINDS = {"link": run_superlink, "executor": run_superexec}


def fork(kind: str, arguments: list[str]) -> int:
    """Start one of the processes with its arguments and return its number."""
    number = os.fork()
    if number:
        return number
    die_with_parent()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    sys.argv = [kind, *arguments]
    end_with(KINDS[kind])


def main() -> None:
    """Run the processes that the arguments name until one of them ends, and end with its code."""
    die_with_parent()
    os.environ.update(QUIET)
    split = sys.argv.index("--")
    commands = [sys.argv[1:split], sys.argv[split + 1 :]]
    import flwr.supercore.cli
    import flwr.superlink.cli  # noqa: F401

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    children = [fork(kind, arguments) for kind, *arguments in commands]
    code = 0
    try:
        code = os.waitstatus_to_exitcode(os.wait()[1])
    finally:
        end_children(children)
    sys.exit(code if code >= 0 else 1)


def end_children(children: list[int]) -> None:
    """Ask the children to end, and after three seconds make them."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for signum, seconds in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 1.0)):
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signum)
        limit = time.monotonic() + seconds
        with suppress(ChildProcessError):
            while time.monotonic() < limit:
                os.waitpid(-1, os.WNOHANG)
                time.sleep(0.02)


if __name__ == "__main__":
    main()
