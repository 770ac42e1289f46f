"""Start processes, keep them in sight, and leave none behind."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from prunefl.system.plugins import program

GRACE = 5.0
"""Seconds that a process has between being asked and being made to end."""


@dataclass
class ProcessGroup:
    """The processes of one command, in the order in which they were started."""

    logs: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, arguments: Sequence[str], show: bool = False) -> subprocess.Popen[bytes]:
        """Start `python -m ARGUMENTS`, its output in logs/NAME.log (or shown to the user), and return it."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            # A group of its own: Ctrl-C reaches us alone and we end the others, with their offspring.
            process = subprocess.Popen(
                [*program("prunefl.engines.flower.child"), str(os.getpid()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=None if show else log,
                stderr=log,
                env={**os.environ, **self.environment},
                process_group=0,
            )
        self.processes[name] = process
        return process

    def find_ended(self) -> list[str]:
        """Return the names of those that are no longer running."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def stop(self, *names: str) -> None:
        """End the named ones (all, if none is named), last started first, and everything they started."""
        chosen = [name for name in reversed(self.processes) if not names or name in names]
        for name in chosen:
            signal_group(self.processes[name], signal.SIGTERM)
        limit = time.monotonic() + GRACE
        for name in chosen:
            process = self.processes.pop(name)
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, limit - time.monotonic()))
            # Whatever is left in the group, the leader's orphans too.
            signal_group(process, signal.SIGKILL)
            process.wait()


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class Stopped(BaseException):
    """The user, or the system, asked this command to end. Like KeyboardInterrupt, no `except Exception` stops it."""


@contextmanager
def run_group(logs: Path, environment: Mapping[str, str]) -> Iterator[ProcessGroup]:
    """Give a group of processes that is gone when the block is left, in whatever way: end, error, Ctrl-C, SIGTERM."""

    def stop(number: int, _frame: object) -> None:
        raise Stopped(signal.Signals(number).name)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    group = ProcessGroup(logs, environment)
    try:
        yield group
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        group.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def tail(log: Path, lines: int = 3) -> str:
    """Return the end of a log, for a message that says why a process ended."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        text = file.read().decode(errors="replace")
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])


@dataclass
class Backoff:
    """How long to wait before the next try: doubles up to a limit, and forgets after a good while."""

    first: float = 1.0
    limit: float = 30.0
    calm: float = 60.0
    wait: float = 0.0
    since: float = 0.0

    def next(self) -> float:
        """Return the seconds to wait now."""
        now = time.monotonic()
        self.wait = (
            self.first if now - self.since > self.calm or not self.wait else min(self.limit, 2 * self.wait)
        )
        self.since = now
        return self.wait
