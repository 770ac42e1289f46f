"""Flower's own processes as this project needs them.

`python -m prunefl.flower.processes link ARGS -- executor ARGS` runs a SuperLink (or, with `node`, a SuperNode)
and its SuperExec with their usual arguments, as two forks of one process that has Flower loaded. It changes what
their options cannot: who may talk to the SuperLink, how soon a waiting message is noticed, and that a message
does not cost the start of an interpreter. Only this file and control.py reach below Flower's public API;
pyproject.toml pins the versions with which they are tested.
"""

import ctypes
import hmac
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

SECRET_HEADER = "prunefl-secret"
SECRET_FILE = "PRUNEFL_SECRET_FILE"
NODE_FILE = "PRUNEFL_NODE_FILE"
SOCKET = "PRUNEFL_WORKER_SOCKET"
"""Environment variables by which `prunefl server` and `prunefl client` tell these processes where things are."""

MAX_BODY = 8 << 20
"""Bytes in one HTTP request: a piece of a letter and its wrapping."""

MAX_MESSAGE = 1 << 30
"""Bytes that a node may push for one message before the SuperLink stops taking them."""

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_LOG_LEVEL": "WARNING",
}
"""Environment in which Flower reports nothing to anybody, installs nothing and logs only what went wrong."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


def change(module: Any, **names: Any) -> None:
    """Give names of a Flower module other values; a Flower that has them no longer is refused in one line."""
    for name, value in names.items():
        if not hasattr(module, name):
            raise ValueError(
                f"this version of Flower has no {module.__name__}.{name}; install flwr>=1.41,<1.43"
            )
        setattr(module, name, value)


def die_with_parent() -> None:
    """Ask the kernel (Linux) to end this process when its parent is gone, however that died."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Gate:
    """Before all of SuperLink's own checks: nodes reach the Fleet API, and nobody else anything.

    Flower serves its Control API (register a node, start a run) on the same port, to everyone. Here it needs
    a secret that only `prunefl server` has; the Runtime API, which has tokens of its own, answers this machine
    only. Nodes are told to come again until the run has started, so that none is refused before its key is known.
    """

    def __init__(self, app: Any, secret: bytes) -> None:
        self.app, self.secret, self.started = app, secret, False
        self.pushed: dict[bytes, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = self.refusal(scope)
        if status:
            await send(
                {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, self.watched(scope, send))

    def refusal(self, scope: Scope) -> int:
        """Return the HTTP status with which a request is turned away, or 0."""
        headers = dict(scope["headers"])
        path = scope["path"]
        size = headers.get(b"content-length", b"0" if scope["method"] == "GET" else b"")
        if not size.isdigit():
            return 411
        if int(size) > MAX_BODY:
            return 413
        if path.startswith("/v1/fleet/"):
            return self.fleet_refusal(path, headers.get(b"flwr-public-key", b""), int(size))
        if path.startswith("/v1/control/"):
            given = headers.get(SECRET_HEADER.encode(), b"")
            return 0 if hmac.compare_digest(given, self.secret) else 403
        if path.startswith("/v1/runtime/"):
            return 0 if (scope.get("client") or ("",))[0] in ("127.0.0.1", "::1", "localhost") else 403
        return 0 if path == "/health" else 404

    def fleet_refusal(self, path: str, key: bytes, size: int) -> int:
        """Return the status for a node's request; what one message brings is bounded, not only each request."""
        if not self.started:
            return 503
        if path.endswith("/push-messages"):
            # Anybody can make up keys: the table must not grow with them.
            self.pushed = self.pushed if len(self.pushed) < 10_000 else {}
            self.pushed[key] = 0
        elif path.endswith("/push-object"):
            self.pushed[key] = self.pushed.get(key, 0) + size
        return 413 if self.pushed.get(key, 0) > MAX_MESSAGE else 0

    def watched(self, scope: Scope, send: Send) -> Send:
        """Return `send`, which opens the gate for nodes when the run has been started."""
        if scope["path"] != "/v1/control/start-run":
            return send

        async def watching(event: dict[str, Any]) -> None:
            self.started |= event["type"] == "http.response.start" and event["status"] == 200
            await send(event)

        return watching


def link() -> None:
    """Run the SuperLink behind the gate."""
    import uvicorn
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    secret = Path(os.environ[SECRET_FILE]).read_bytes().hex().encode()
    change(extensions, get_middleware=lambda: (Middleware(Gate, secret=secret),))
    serve = uvicorn.run
    # Else it waits at its end for clients that keep their connection, and logs every request.
    ours = {"timeout_graceful_shutdown": 1, "access_log": False}
    change(uvicorn, run=lambda **options: serve(**{**options, **ours}))
    flower_superlink()


class Pace:
    """Stands in for the module `time` in the SuperNode's loop, which else looks for work every three seconds.

    A node that has just worked looks again soon; one that waits long looks less and less often, so that the
    delay stays a small share of the time waited: 5 %, between 0.2 and 3 seconds.
    """

    def __init__(self) -> None:
        self.busy = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep as long as makes sense now."""
        if seconds < 1:
            self.busy = time.monotonic()
            time.sleep(0.05)
        else:
            time.sleep(min(3.0, max(0.2, 0.05 * (time.monotonic() - self.busy))))


def quicken() -> None:
    """Look again soon for a message's contents, and for a server that is away."""
    from flwr.supercore.inflatable import inflatable_utils
    from flwr.supercore.retry import http_retry

    (inflatable_utils.pull_objects.__kwdefaults__ or {})["initial_backoff"] = 0.05
    change(http_retry, MAX_RETRY_DELAY=5)


def node() -> None:
    """Run the SuperNode at our pace. A node that was killed takes its place again at once."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    quicken()
    connect = getattr(start_client_internal, "http_request_response", None)

    @contextmanager
    def reconnect(address: str, insecure: bool, roots: Any, keys: Any, *rest: Any) -> Iterator[Any]:
        leave(Path(os.environ[NODE_FILE]), address, insecure, roots, keys)
        assert connect is not None
        with connect(address, insecure, roots, keys, *rest) as connection:
            Path(os.environ[NODE_FILE]).write_text(str(connection[0]))
            yield connection

    change(start_client_internal, time=Pace(), http_request_response=reconnect)
    flower_supernode()


def leave(file: Path, address: str, insecure: bool, roots: Any, keys: Any) -> None:
    """Tell the SuperLink that our former self is gone: else it keeps the place for a minute."""
    if keys is None or not file.exists():
        return
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    interceptors: list[Any] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(*keys),
    ]
    with (
        suppress(Exception),
        FleetHttpClient.from_server_address(address, insecure, roots, interceptors=interceptors) as client,
    ):
        client.DeactivateNode(DeactivateNodeRequest(node_id=int(file.read_text())))


class ForkExecutor:
    """Runs a task in a fork of this process, which has Flower loaded: milliseconds instead of seconds."""

    def get_eligible_capacity(self, task_types: set[Any], **_: Any) -> tuple[set[Any], set[str]]:
        """Return that any task can start at once."""
        return task_types, set()

    def launch(self, spec: Any) -> Any:
        """Start the task and return without waiting for it."""
        from flwr.supercore.superexec.executor.types import LaunchResult

        sys.stdout.flush()
        if os.fork() == 0:
            run_task(spec)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Collect the tasks that have ended."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def wait_for_capacity(self, *_: Any, **__: Any) -> None:
        """There is always room."""

    def close(self) -> None:
        """Nothing is held."""


def run_task(spec: Any) -> NoReturn:
    """Do one task in a forked process and end it."""
    die_with_parent()
    roots = [] if spec.insecure else ["--root-certificates", str(spec.root_certificates_path)]
    insecure = ["--insecure"] if spec.insecure else []
    sys.argv = [str(spec.task_type), "--runtime-api-address", spec.runtime_api_address, *insecure, *roots]
    sys.argv += ["--token", spec.token, "--parent-pid", str(os.getppid())]
    end_with(_task_function(str(spec.task_type.value)))


def _task_function(kind: str) -> Callable[[], None]:
    if kind == "flwr-serverapp":
        from flwr.superlink.cli import flwr_serverapp

        quicken()
        return flwr_serverapp
    from flwr.supernode.cli import flwr_clientapp

    return flwr_clientapp


def executor() -> None:
    """Run the SuperExec with forks. On a client only our own ClientApp runs, whatever a server may send."""
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec import run_superexec
    from flwr.supernode.runtime import run_clientapp

    from prunefl.flower.client_app import app

    quicken()
    change(run_superexec, get_executor=lambda *_, **__: ForkExecutor())
    change(run_clientapp, install_from_fab=lambda *_, **__: None)
    change(run_clientapp, get_load_client_app_fn=lambda **_: lambda *__: app)
    flower_superexec()


KINDS: dict[str, Callable[[], None]] = {"link": link, "node": node, "executor": executor}


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


def end_with(function: Callable[[], None]) -> NoReturn:
    """Run a forked process's whole work and end it, without what its parent has planned for its own end."""
    code = 1
    try:
        function()
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run the processes that the arguments name until one of them ends, and end with its code."""
    die_with_parent()
    os.environ.update(QUIET)
    # A server starts one task in its life, a client one for every message.
    os.environ["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "1.0" if sys.argv[1] == "link" else "0.1"
    split = sys.argv.index("--")
    commands = [sys.argv[1:split], sys.argv[split + 1 :]]
    import flwr.supercore.cli
    import flwr.superlink.cli
    import flwr.supernode.cli  # noqa: F401

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    children = [fork(kind, arguments) for kind, *arguments in commands]
    code = 0
    try:
        code = watch(children, commands)
    finally:
        end_children(children)
    sys.exit(code if code >= 0 else 1)


def watch(children: list[int], commands: list[list[str]]) -> int:
    """Wait until one of the children ends and return its code; a node that had been connected starts anew.

    A SuperNode ends when a SuperLink that was restarted does not know it. It need not load Flower again for that.
    """
    started = time.time()
    while True:
        number, status = os.wait()
        if number != children[0] or commands[0][0] != "node" or not connected_since(started):
            return os.waitstatus_to_exitcode(status)
        time.sleep(1.0)
        started = time.time()
        children[0] = fork(commands[0][0], commands[0][1:])


def connected_since(started: float) -> bool:
    """Return whether the SuperNode has been connected since then."""
    file = Path(os.environ[NODE_FILE])
    return file.exists() and file.stat().st_mtime >= started


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
