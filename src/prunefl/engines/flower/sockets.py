"""The local line between ClientApp and worker: a Unix socket in a folder that only this user can enter."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prunefl.system.errors import PruneFLError

MAX_FRAME = 2 << 30
_LENGTH = struct.Struct("<Q")


def listen(path: Path) -> socket.socket:
    """Return a listening socket at `path`; its folder gets mode 0700, the socket 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_name(path) as name:
            server.bind(name)
    finally:
        os.umask(before)
    server.listen(4)
    return server


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Yield a name of a socket that is short however deep its folder lies: Unix allows about 100 bytes."""
    if len(os.fsencode(path)) <= 100:
        yield os.fspath(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def call(path: Path, data: bytes, seconds: float | None = None, patience: float = 0.0) -> bytes:
    """Return the worker's answer to a message.

    Args:
        seconds: how long one step may take; None for as long as it takes.
        patience: seconds for which to wait for a worker that is just being started.
    """
    with connect(path, patience) as line:
        line.settimeout(seconds)
        send(line, data)
        return receive(line)


def connect(path: Path, patience: float) -> socket.socket:
    """Return a connection to the worker."""
    limit = time.monotonic() + patience
    while True:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_name(path) as name:
                line.connect(name)
            return line
        except (ConnectionRefusedError, FileNotFoundError):
            line.close()
            if time.monotonic() >= limit:
                raise
            time.sleep(0.1)


def send(line: socket.socket, data: bytes) -> None:
    """Send one frame: its length, then its bytes."""
    line.sendall(_LENGTH.pack(len(data)))
    line.sendall(data)


def receive(line: socket.socket, max_bytes: int = MAX_FRAME) -> bytes:
    """Return one frame; ConnectionError if it is cut off, ValueError if it would be too long."""
    (size,) = _LENGTH.unpack(_receive_exactly(line, _LENGTH.size))
    if size > max_bytes:
        raise PruneFLError(f"a frame of {size} bytes, must be <= {max_bytes}")
    return _receive_exactly(line, size)


def _receive_exactly(line: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = line.recv_into(view[got:])
        if not count:
            raise ConnectionError(f"the line was cut after {got} of {size} bytes")
        got += count
    return bytes(data)
