"""Who may ask the SuperLink what: Flower serves its control interface to everybody, here it does not."""

import asyncio
import hmac
import logging
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from flwr.proto.control_pb2 import RegisterNodeRequest, RegisterNodeResponse, UnregisterNodeRequest

from prunefl.engines.flower.connections import Connections
from prunefl.engines.flower.ledger import FLEET, RUNTIME, Forbidden, Ledger
from prunefl.engines.flower.unpacking import is_parcel, serve_parcel

log = logging.getLogger(__name__)

SECRET_HEADER = "prunefl-secret"
KEY_HEADER = b"flwr-public-key"
CONTROL = "/v1/control/"
MAX_BODY = 8 << 20
"""Bytes in one HTTP request: a chunk of a message and its wrapping."""

MAX_BUFFERED = 256 << 20
"""Bytes of requests that are being received, of all nodes together."""

PEER_BUFFERED = 4 * MAX_BODY
"""The same of one key; a SuperNode sends two pieces at a time."""

BODY_SECONDS = 300.0
"""Time for a request's body: 8 MB over a link of 30 kB a second."""

Scope = dict[str, Any]
Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class AccessControl:
    """Before all of SuperLink's own checks: nodes reach the Fleet API, and nobody else anything.

    Flower serves its Control API (register a node, start a run) on the same port, to everyone. Here it needs
    a secret that only `prunefl server` has; the Runtime API, which has tokens of its own, answers this machine
    only. Nodes are told to come again until the run has started, so that none is refused before its key is known.
    Nothing of a request but its headers is read before it has shown a key that is registered.

    Args:
        max_bytes: says how large an answer of a node may be.
        keyed: whether nodes need registered keys.
    """

    def __init__(
        self,
        app: Any,
        secret: bytes,
        connections: Connections,
        max_bytes: Callable[[], int],
        keyed: bool = True,
    ) -> None:
        self.app, self.secret, self.started, self.keyed = app, secret, False, keyed
        self.known: dict[bytes, int] = {}
        self._connections, self._ledger = connections, Ledger(max_bytes)
        self._buffered: Counter[bytes] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = self.find_refusal(scope)
        if status:
            await _refuse(send, status)
            return
        if scope.get("client"):
            self._connections.trust(scope["client"])
        if _is_read(scope["path"]) or is_parcel(scope):
            await self._pass_read(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def find_refusal(self, scope: Scope) -> int:
        """Return the HTTP status with which a request is turned away by its headers alone, or 0."""
        headers = dict(scope["headers"])
        path = scope["path"]
        size = headers.get(b"content-length", b"0" if scope["method"] == "GET" else b"")
        if not size.isdigit() or len(size) > 12:
            return 411
        if int(size) > MAX_BODY:
            return 413
        if path.startswith(FLEET):
            if not self.started:
                return 503
            # not 401, at which a SuperNode ends without a word: its client could not say why
            return 400 if self.keyed and headers.get(KEY_HEADER, b"") not in self.known else 0
        if path.startswith(CONTROL):
            given = headers.get(SECRET_HEADER.encode(), b"")
            return 0 if hmac.compare_digest(given, self.secret) else 403
        if path.startswith(RUNTIME):
            return 0 if is_local(scope) else 403
        return 0 if path == "/health" else 404

    async def _pass_read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a request before the SuperLink does, and its answer before the node."""
        headers = dict(scope["headers"])
        size, peer = int(headers.get(b"content-length", b"0")), headers.get(KEY_HEADER, b"")
        # without keys anybody can make some up, and all share one account
        most = PEER_BUFFERED if self.keyed else MAX_BUFFERED
        if self._buffered.total() + size > MAX_BUFFERED or self._buffered[peer] + size > most:
            await _refuse(send, 503)
            return
        self._buffered[peer] += size
        try:
            body = await asyncio.wait_for(read_body(receive), BODY_SECONDS)
        except TimeoutError:
            await _refuse(send, 408)
        else:
            serve = partial(self._pass_one, receive)
            await (serve_parcel(serve, scope, body, send) if is_parcel(scope) else serve(scope, body, send))
        finally:
            self._buffered[peer] -= size
            # only who is sending something is kept
            self._buffered += Counter()

    async def _pass_one(self, receive: Receive, scope: Scope, body: bytes, send: Send) -> None:
        """Pass on one request if the ledger has nothing against it."""
        try:
            if scope["path"].startswith(FLEET):
                self._ledger.check(scope["path"], body)
        except Forbidden as error:
            log.warning("a node's request is refused: %s", error)
            await _refuse(send, 403)
            return
        granted = _watch(send, lambda answer: self._note(scope, body, answer))
        await self.app(scope, replay(body, receive), granted)

    def _note(self, scope: Scope, body: bytes, answer: bytes) -> None:
        """Take note of what the SuperLink has granted, after its own checks of whose request it is."""
        path = scope["path"]
        if path == f"{CONTROL}start-run":
            self.started = True
        elif path == f"{CONTROL}register-node":
            key = b64encode(RegisterNodeRequest.FromString(body).public_key)
            self.known[key] = RegisterNodeResponse.FromString(answer).node_id
        elif path == f"{CONTROL}unregister-node":
            gone = UnregisterNodeRequest.FromString(body).node_id
            self.known = {key: node for key, node in self.known.items() if node != gone}
        elif not path.startswith(CONTROL):
            self._ledger.note(path, body, answer, lambda name, asked: delete_answer(scope, name, asked))


def delete_answer(scope: Scope, name: str, asked: str) -> None:
    """Remove an answer that nobody reads any more from the SuperLink's memory."""
    state = scope["app"].state.linkstate_factory.state()
    state.delete_messages({asked})
    state.object_store.delete(name)


def _is_read(path: str) -> bool:
    """Return whether a request is read here: those of nodes, and those that tell what to let through."""
    told = [f"{CONTROL}{name}" for name in ("start-run", "register-node", "unregister-node")]
    return path.startswith(FLEET) or path in (*told, f"{RUNTIME}confirm-message-received")


async def _refuse(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def read_body(receive: Receive) -> bytes:
    """Return the whole body; what is longer than announced the web server does not let through."""
    parts = []
    while True:
        event = await receive()
        parts.append(event.get("body", b""))
        if not event.get("more_body") or event["type"] == "http.disconnect":
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, and then what comes."""
    events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Event:
        return events.pop() if events else await receive()

    return replay


def _watch(send: Send, note: Callable[[bytes], None]) -> Send:
    """Return a `send` that calls `note` with the body of a granted request, just before the node has it."""
    granted, body = False, bytearray()

    async def watching(event: Event) -> None:
        nonlocal granted
        if event["type"] == "http.response.start":
            granted = event["status"] == 200
        elif granted:
            body.extend(event.get("body", b""))
            if not event.get("more_body"):
                note(bytes(body))
        await send(event)

    return watching


def is_local(scope: Scope) -> bool:
    """Return whether a request comes from this machine: from loopback, or from the address that it came to."""
    peer = (scope.get("client") or ("",))[0]
    return peer in ("127.0.0.1", "::1", "localhost") or peer == (scope.get("server") or (None,))[0]
