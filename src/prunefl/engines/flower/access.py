"""Who may ask the SuperLink what: Flower serves its control interface to everybody, here it does not."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

SECRET_HEADER = "prunefl-secret"
KEY_HEADER = b"flwr-public-key"
PUSH = "/v1/fleet/push-object"
MAX_BODY = 8 << 20
"""Bytes in one HTTP request: a chunk of a message and its wrapping."""

MAX_MESSAGE = 1 << 30
"""Bytes that a node may push for one message before the SuperLink stops taking them."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class AccessControl:
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
        status = self.find_refusal(scope)
        if status:
            await send(
                {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, self.watch(scope, send))

    def find_refusal(self, scope: Scope) -> int:
        """Return the HTTP status with which a request is turned away, or 0."""
        headers = dict(scope["headers"])
        path = scope["path"]
        size = headers.get(b"content-length", b"0" if scope["method"] == "GET" else b"")
        if not size.isdigit():
            return 411
        if int(size) > MAX_BODY:
            return 413
        if path.startswith("/v1/fleet/"):
            if not self.started:
                return 503
            pushed = self.pushed.get(headers.get(KEY_HEADER, b""), 0) + int(size)
            return 413 if path == PUSH and pushed > MAX_MESSAGE else 0
        if path.startswith("/v1/control/"):
            given = headers.get(SECRET_HEADER.encode(), b"")
            return 0 if hmac.compare_digest(given, self.secret) else 403
        if path.startswith("/v1/runtime/"):
            return 0 if is_local(scope) else 403
        return 0 if path == "/health" else 404

    def watch(self, scope: Scope, send: Send) -> Send:
        """Return `send`, which takes note of what the SuperLink has granted."""

        async def watching(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start" and event["status"] == 200:
                self.note_grant(scope)
            await send(event)

        return watching

    def note_grant(self, scope: Scope) -> None:
        """Let nodes in when the run has been started, and add up what each pushes for one message.

        Only after the SuperLink has checked whose request it is: nobody can fill or empty another's account.
        """
        path, headers = scope["path"], dict(scope["headers"])
        key = headers.get(KEY_HEADER, b"")
        if path == "/v1/control/start-run":
            self.started = True
        elif path == "/v1/fleet/push-messages":
            # without keys anybody can make some up: the table must not grow with them
            self.pushed = self.pushed if len(self.pushed) < 10_000 else {}
            self.pushed[key] = 0
        elif path == PUSH:
            self.pushed[key] = self.pushed.get(key, 0) + int(headers.get(b"content-length", b"0"))


def is_local(scope: Scope) -> bool:
    """Return whether a request comes from this machine: from loopback, or from the address that it came to."""
    peer = (scope.get("client") or ("",))[0]
    return peer in ("127.0.0.1", "::1", "localhost") or peer == (scope.get("server") or (None,))[0]
