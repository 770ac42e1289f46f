"""The bell between the SuperLink and the run on one machine: it rings when an answer has come, so that nobody polls."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from prunefl.engines.flower.sockets import short_name

FILE = ".bell"
"""In the run's folder."""


def ring(path: Path) -> None:
    """Ring; where nobody listens, or it has not been heard yet, nothing happens."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.setblocking(False)
        with short_name(path) as name:
            line.sendto(b"!", name)


class Bell:
    """Calls a function whenever it is rung. Use as a context manager."""

    def __init__(self, path: Path, heard: Callable[[], None]) -> None:
        self._path, self._heard = path, heard

    def __enter__(self) -> "Bell":
        self._path.unlink(missing_ok=True)
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        before = os.umask(0o177)
        try:
            with short_name(self._path) as name:
                self._line.bind(name)
        finally:
            os.umask(before)
        threading.Thread(target=self._listen, name="bell", daemon=True).start()
        return self

    def _listen(self) -> None:
        with suppress(OSError):
            while self._line.recv(1):
                self._heard()

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()
