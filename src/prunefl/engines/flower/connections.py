"""Connections of strangers: few at a time and for seconds, from before TLS; whoever has shown a key stays.

A listening socket that closes what is too much as it accepts. It works below the web server, so that handshakes,
headers and bodies that never end cost the same nothing.
"""

import logging
import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

log = logging.getLogger(__name__)

STRANGERS = 128
"""Connections at a time that have not shown a key. When there are more, one by lot goes: the honest one comes again."""

STRANGER_SECONDS = 20.0
"""Time to shake hands and send headers with a key."""

FRIENDS = 1024
"""Connections at a time that have."""

Address = tuple[str, int]


@dataclass
class _Connection:
    line: socket.socket
    since: float
    trusted: bool = False


class Connections:
    """All connections of a listening socket, by the address that they come from."""

    def __init__(self) -> None:
        self._open: dict[Address, _Connection] = {}
        self._lock = threading.Lock()

    def admit(self, line: socket.socket, address: Address) -> None:
        """Take a new connection; where strangers are too many, one of them is closed."""
        with self._lock:
            self._forget_closed()
            strangers = [one for one in self._open.values() if not one.trusted]
            if len(strangers) >= STRANGERS:
                _close(random.choice(strangers).line)
            self._open[address[:2]] = _Connection(line, time.monotonic())

    def trust(self, address: Address) -> None:
        """Let a connection stay that has shown a key."""
        with self._lock:
            friends = sum(one.trusted for one in self._open.values())
            if address[:2] in self._open and friends < FRIENDS:
                self._open[address[:2]].trusted = True

    def close_overdue(self) -> None:
        """Close the connections of strangers that have had their time."""
        with self._lock:
            self._forget_closed()
            limit = time.monotonic() - STRANGER_SECONDS
            for one in self._open.values():
                if not one.trusted and one.since < limit:
                    _close(one.line)

    def watch(self) -> None:
        """Close overdue connections once a second, for as long as this process lives."""

        def keep_closing() -> None:
            while True:
                time.sleep(1.0)
                self.close_overdue()

        threading.Thread(target=keep_closing, name="connections", daemon=True).start()

    def _forget_closed(self) -> None:
        self._open = {address: one for address, one in self._open.items() if one.line.fileno() >= 0}


def _close(line: socket.socket) -> None:
    """End a connection that somebody else reads from: he sees its end, and lets go of it."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


class GuardedSocket(socket.socket):
    """A listening socket whose connections are watched."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, Address]:
        """Return a new connection, and enter it."""
        line, address = super().accept()
        self.connections.admit(line, address)
        return line, address


def listen(host: str, port: int, connections: Connections) -> GuardedSocket:
    """Return a socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = GuardedSocket(family, socket.SOCK_STREAM)
    server.connections = connections
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((host, port))
    server.setblocking(False)
    return server
