"""The gate before the SuperLink: Flower serves its control interface to everybody, here it does not."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

SECRET_HEADER = "prunefl-secret"
MAX_BODY = 8 << 20
"""Bytes in one HTTP request: a piece of a letter and its wrapping."""

MAX_MESSAGE = 1 << 30
"""Bytes that a node may push for one message before the SuperLink stops taking them."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Gate:
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
        status = self.refusal(scope)
        if status:
            await send(
                {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, self.watched(scope, send))

    def refusal(self, scope: Scope) -> int:
        """Return the HTTP status with which a request is turned away, or 0."""
        headers = dict(scope["headers"])
        path = scope["path"]
        size = headers.get(b"content-length", b"0" if scope["method"] == "GET" else b"")
        if not size.isdigit():
            return 411
        if int(size) > MAX_BODY:
            return 413
        if path.startswith("/v1/fleet/"):
            return self.fleet_refusal(path, headers.get(b"flwr-public-key", b""), int(size))
        if path.startswith("/v1/control/"):
            given = headers.get(SECRET_HEADER.encode(), b"")
            return 0 if hmac.compare_digest(given, self.secret) else 403
        if path.startswith("/v1/runtime/"):
            return 0 if (scope.get("client") or ("",))[0] in ("127.0.0.1", "::1", "localhost") else 403
        return 0 if path == "/health" else 404

    def fleet_refusal(self, path: str, key: bytes, size: int) -> int:
        """Return the status for a node's request; what one message brings is bounded, not only each request."""
        if not self.started:
            return 503
        if path.endswith("/push-messages"):
            # Anybody can make up keys: the table must not grow with them.
            self.pushed = self.pushed if len(self.pushed) < 10_000 else {}
            self.pushed[key] = 0
        elif path.endswith("/push-object"):
            self.pushed[key] = self.pushed.get(key, 0) + size
        return 413 if self.pushed.get(key, 0) > MAX_MESSAGE else 0

    def watched(self, scope: Scope, send: Send) -> Send:
        """Return `send`, which opens the gate for nodes when the run has been started."""
        if scope["path"] != "/v1/control/start-run":
            return send

        async def watching(event: dict[str, Any]) -> None:
            self.started |= event["type"] == "http.response.start" and event["status"] == 200
            await send(event)

        return watching
