"""A federation of real processes over loopback, with TLS and keys, that leaves nothing behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prunefl.engines.flower import key_files, keys, sockets
from prunefl.engines.flower.join import free_port, socket_path
from prunefl.engines.flower.signing import is_signed, sign_message, unpack_signed

COMMAND = "import sys; from prunefl.commands.main import main; main()"


@dataclass
class Realm:
    """Server and clients by name; each is one `prunefl` command with its output in a file."""

    folder: Path
    config: Path
    clients: int = 3
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def start(
        self,
        name: str,
        *arguments: str,
        code: str = COMMAND,
        first: str = "",
        before: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `prunefl ARGUMENTS`, or other code with these arguments.

        Args:
            first: modules in this folder are found first.
            before: a command that runs it.
        """
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PRUNEFL_CACHE": str(self.folder.parent / "cache"),
        }
        environment["FLWR_TELEMETRY_ENABLED"] = "0"
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [first, *sys.path]))
        with (self.folder / f"{name}.txt").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [*before, sys.executable, "-c", code, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        return self.processes[name]

    def start_server(self, *more: str, before: Sequence[str] = ()) -> None:
        """Start the server, with `--resume` if asked."""
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--out", str(self.run)]
        given = [str(self.config), "--keys", str(self.folder / "keys"), *place, *more]
        self.start("server", "server", *given, before=before)

    def start_client(
        self,
        client: int,
        folder: Path | None = None,
        name: str = "",
        data: Path | None = None,
        first: str = "",
        before: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a client with its own keys, or with others; with its own data, or a share of the server's."""
        name = name or f"client-{client}"
        given = folder or self.folder / "keys" / f"client-{client}"
        place = ["--server", self.address, "--client", str(client), "--state", str(self.state(name))]
        own = ["--data", str(data)] if data else ["--share", f"{client}/{self.clients}"]
        trust = ["--keys", str(given)] if given.exists() else ["--insecure"]
        return self.start(name, "client", *place, *own, *trust, first=first, before=before)

    def home(self, client: int) -> Path:
        """Return a client's folder of keys."""
        return self.folder / "keys" / f"client-{client}"

    def state(self, name: str) -> Path:
        return self.folder / "state" / name

    def kill(self, name: str) -> None:
        """kill -9 a command; whatever it had started has to notice by itself."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def said(self, name: str) -> str:
        """Return all that a command has printed."""
        path = self.folder / f"{name}.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def rounds(self) -> list[dict]:
        """Return the records of the rounds done so far."""
        path = self.run / "records.jsonl"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        records = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [record for record in records if record["kind"] == "round"]

    def round(self) -> int:
        """Return the last round done."""
        done = self.rounds()
        return done[-1]["round"] if done else 0

    def wait(self, what: str, ready: Callable[[], object], seconds: float = 150.0) -> None:
        """Return when something has happened; say what has not, and what everyone said, if it takes too long."""
        limit = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > limit:
                words = "\n".join(f"--- {name}\n{self.said(name)[-1500:]}" for name in self.names())
                raise AssertionError(f"waited {seconds} s for {what}, in vain\n{words}\n{self.log()}")
            time.sleep(0.1)

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.txt"))

    def log(self) -> str:
        path = self.run / "logs" / "flower.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def family(self, name: str) -> list[int]:
        """Return a command's process and all that descend from it."""
        found = [self.processes[name].pid]
        for number in found:
            for children in Path(f"/proc/{number}/task").glob("*/children"):
                found += [int(text) for text in children.read_text().split()]
        return found

    def mine(self) -> list[int]:
        """Return all living processes that have this realm's folder in their environment or arguments."""
        mark = os.fsencode(self.folder)
        return [number for number in living() if mark in read(number, "cmdline") + read(number, "environ")]


def living() -> Iterator[int]:
    """Yield the numbers of all processes that have not ended."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and b") Z " not in read(int(path.name), "stat"):
            yield int(path.name)


def read(number: int, name: str) -> bytes:
    """Return a file of a process in /proc; nothing if it is gone or not ours."""
    try:
        return Path(f"/proc/{number}/{name}").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def realm(folder: Path, config: str, clients: int = 3) -> Iterator[Realm]:
    """Give a realm with keys; at the end, also that of a failed test, every process is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(config)
    keys.make_keys(folder / "keys", ["localhost"], clients, days=2)
    town = Realm(folder, folder / "config.toml", clients)
    try:
        yield town
    finally:
        for process in town.processes.values():
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
        for process in town.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Forger:
    """Sits on a worker's socket and passes messages on; answers go through `change` on the way back.

    With the client's own folder of keys it is a client that lies: what it changes it signs.
    """

    def __init__(self, state: Path, change: Callable[[bytes], bytes], home: Path | None = None) -> None:
        self.change = change
        self.key = key_files.read_node_key(home / key_files.NODE) if home else None
        self.asked: list[bytes] = []
        self.front, self.back = socket_path(state), socket_path(state).with_name("real.sock")
        os.rename(self.front, self.back)
        self.server = sockets.listen(self.front)
        self.server.settimeout(0.2)
        self.thread = threading.Thread(target=self._pass_on, daemon=True)
        self.open = True
        self.thread.start()

    def _pass_on(self) -> None:
        while self.open:
            try:
                line, _ = self.server.accept()
            except TimeoutError:
                continue
            with line:
                line.settimeout(60)
                self.asked.append(sockets.receive(line))
                answer = self._forge(sockets.call(self.back, self.asked[-1], 60))
                # who asked may have been killed meanwhile
                with contextlib.suppress(BrokenPipeError):
                    sockets.send(line, answer)

    def _forge(self, answer: bytes) -> bytes:
        if self.key is None or not is_signed(answer):
            return self.change(answer)
        signed = unpack_signed(answer)
        return sign_message(self.key, signed.statement, self.change(signed.content))

    def close(self) -> None:
        """Let the worker have its socket back."""
        self.open = False
        self.thread.join()
        self.server.close()
        os.replace(self.back, self.front)
