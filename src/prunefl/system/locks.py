"""One process at a time in a folder that is written to: a lock that the kernel lets go of, whatever ends its holder."""

import json
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from prunefl.system.errors import PruneFLError

if sys.platform != "win32":
    import fcntl

LOCK_FILE = ".lock"
"""Left behind when it is let go: only the kernel's lock on it counts, not that it is there."""

INHERITED = "PRUNEFL_LOCK"
"""Environment variable with the descriptor of a lock that a process was given by the one that started it."""

_POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)


class FolderInUseError(PruneFLError):
    """Another process is at work in the folder."""


@contextmanager
def hold(folder: Path, wait_seconds: float = 0.0) -> Iterator[int]:
    """Keep a folder, made if need be, for this process; yield a descriptor by which a child can hold it too.

    The child is given the descriptor (`pass_fds`) and its number (`for_child`), and then holds the lock for itself.

    Raises:
        FolderInUseError: another process has it, and still had it after the time to wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, until = folder / LOCK_FILE, time.monotonic() + wait_seconds
    while (file := _inherited(path) or _locked(path)) is None:
        if time.monotonic() >= until:
            raise FolderInUseError(f"{folder}: {_holder(path)} is at work there; wait for it or stop it")
        time.sleep(_POLL_SECONDS)
    with file:
        file.truncate(0)
        file.write(json.dumps(_myself()))
        file.flush()
        yield file.fileno()


def for_child(descriptor: int) -> dict[str, str]:
    """Return the environment that tells a child which descriptor is the lock it was given."""
    return {**os.environ, INHERITED: str(descriptor)}


def _inherited(path: Path) -> IO[str] | None:
    """Return the lock on this file if the process that started us handed it down."""
    number = os.environ.get(INHERITED, "")
    if not number.isdigit() or not path.exists() or not _is(path, int(number)):
        return None
    # once: later the number may be another file's
    del os.environ[INHERITED]
    os.set_inheritable(int(number), False)
    return os.fdopen(int(number), "a+")


def _locked(path: Path) -> IO[str] | None:
    """Return the file, locked; None if another process has the lock."""
    file = path.open("a+")
    if not _take(file):
        file.close()
        return None
    if _is(path, file.fileno()):
        return file
    # whoever held it has removed the folder meanwhile
    file.close()
    return _locked(path)


def _take(file: IO[str]) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # some network file systems know no locks: no reason not to run there
        _log.warning("%s cannot be locked (%s): make sure that nothing else writes there", file.name, error)
    return True


def _is(path: Path, descriptor: int) -> bool:
    """Return whether the descriptor is the file that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _myself() -> dict[str, str | int]:
    program = Path(sys.argv[0])
    name = "prunefl" if program.name == "__main__.py" else program.name
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join([name, *sys.argv[1:]]),
        "since": datetime.now().astimezone().isoformat(" ", "seconds"),
    }


def _holder(path: Path) -> str:
    """Return who holds the lock, as they wrote it into the file; what cannot be read is left out."""
    try:
        text = json.loads(path.read_text())
        return f"process {text['process']} on {text['host']} (`{text['command']}`, since {text['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_held(folder: Path) -> bool | None:
    """Return whether a process is at work in the folder, without touching its lock; None where that cannot be seen.

    To try the lock, even for a moment, could turn away a process that is just starting.
    """
    try:
        number = (folder / LOCK_FILE).stat().st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except FileNotFoundError as error:
        return None if error.filename == "/proc/locks" else False
    except OSError:
        return None
    return any(line.split()[-3].rpartition(":")[2] == str(number) for line in lines if "FLOCK" in line)
