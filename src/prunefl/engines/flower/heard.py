"""When each node last asked for work: the SuperLink sees it, and leaves it in a file for who writes the status.

A node that waits for work is noted every two seconds (waiting.py), but is only missed by Flower after a minute.
"""

import json
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from prunefl.system.files import write_atomically

FILE = "heard.json"
PULL = "/v1/fleet/pull-messages"
MOST_NODES = 100_000
_LONGEST = 4096
_WRITE_SECONDS = 1.0
_KEPT_GAPS = 10


class Heard:
    """Keeps when nodes were heard of, and writes it down at most once a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._times: dict[int, float] = {}
        self._gaps: dict[int, deque[float]] = {}
        self._written = 0.0

    def note(self, node: int) -> None:
        """Enter that a node, known to the SuperLink, has just asked for work."""
        now = round(time.time(), 2)
        if node in self._times:
            self._gaps[node].append(now - self._times[node])
            self._times[node] = now
        elif len(self._times) < MOST_NODES:
            self._gaps[node] = deque(maxlen=_KEPT_GAPS)
            self._times[node] = now
        if time.monotonic() - self._written > _WRITE_SECONDS:
            self._written = time.monotonic()
            content = {
                n: [when, round(max(self._gaps[n], default=0.0), 2)] for n, when in self._times.items()
            }
            write_atomically(self._path, json.dumps(content).encode(), durable=False)


class HeardNodes:
    """Behind access control, before the SuperLink: notes whose request for work the SuperLink has granted."""

    def __init__(self, app: Any, heard: Heard) -> None:
        self.app, self.heard = app, heard

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != PULL:
            await self.app(scope, receive, send)
            return
        body = bytearray()

        async def receiving() -> dict[str, Any]:
            event: dict[str, Any] = await receive()
            body.extend(event.get("body", b"")[: _LONGEST + 1 - len(body)])
            return event

        async def sending(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start" and event["status"] == 200:
                self._note(bytes(body))
            await send(event)

        await self.app(scope, receiving, sending)

    def _note(self, body: bytes) -> None:
        from flwr.proto.fleet_pb2 import PullMessagesRequest
        from google.protobuf.message import DecodeError

        with suppress(DecodeError):
            if len(body) <= _LONGEST and (node := PullMessagesRequest.FromString(body).node.node_id):
                self.heard.note(node)


def read_heard(folder: Path) -> dict[int, tuple[float, float]]:
    """Return node -> Unix time at which it was last heard of, and the longest of its last silences, in seconds.

    Nothing where nobody has written it down.
    """
    try:
        content = json.loads((folder / FILE).read_text())
        return {int(node): (float(when), float(gap)) for node, (when, gap) in content.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
