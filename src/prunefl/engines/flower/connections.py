"""Connections of strangers: few at a time and for seconds, from before TLS; whoever has shown a key stays.

A listening socket that closes what is too much as it accepts. It works below the web server, so that handshakes,
headers and bodies that never end cost the same nothing.
"""

import gc
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

AT_ONCE = 8
"""Connections taken before those who are there already have their turn again: thousands at once hold nobody up."""

SWEEP = 64
"""Connections ended before what is left of them is swept up: TLS leaves cycles with its buffers."""

FRIENDS = 1024
"""Connections at a time that have."""

Address = tuple[str, int]


@dataclass
class _Connection:
    line: socket.socket
    since: float
    trusted: bool = False
    ended: bool = False

    @property
    def strange(self) -> bool:
        """Whether it is open and has not shown a key."""
        return not self.trusted and not self.ended

    def end(self) -> None:
        """End it while somebody else reads from it: he sees its end, and lets go of it."""
        self.ended = True
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)


class Connections:
    """All connections of a listening socket, by the address that they come from."""

    def __init__(self) -> None:
        self._open: dict[Address, _Connection] = {}
        self._lock = threading.Lock()
        self._unswept = 0

    def admit(self, line: socket.socket, address: Address) -> None:
        """Take a new connection; where strangers are too many, one of them is closed."""
        with self._lock:
            self._forget_closed()
            strangers = [one for one in self._open.values() if one.strange]
            if len(strangers) >= STRANGERS:
                random.choice(strangers).end()
                self._unswept += 1
            self._open[address[:2]] = _Connection(line, time.monotonic())
        if self._unswept >= SWEEP:
            self._unswept = 0
            gc.collect()

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
                if one.strange and one.since < limit:
                    one.end()

    def watch(self) -> None:
        """Close overdue connections once a second, for as long as this process lives."""

        def keep_closing() -> None:
            while True:
                time.sleep(1.0)
                self.close_overdue()

        threading.Thread(target=keep_closing, name="connections", daemon=True).start()

    def _forget_closed(self) -> None:
        self._open = {address: one for address, one in self._open.items() if one.line.fileno() >= 0}


class GuardedSocket(socket.socket):
    """A listening socket whose connections are watched."""

    connections: Connections
    _taken = 0

    def accept(self) -> tuple[socket.socket, Address]:
        """Return a new connection, and enter it; after a few say once that no more have come, though they may have.

        An event loop accepts until nobody is left, and only then looks at who else has something to say.
        """
        if self.gettimeout() == 0.0 and self._taken == AT_ONCE:
            self._taken = 0
            raise BlockingIOError
        line, address = super().accept()
        self._taken += 1
        # an answer is a head and a body: else the body waits 40 ms for the other end to say that it has the head
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
