"""Who may read the page: this machine, or who has the token. Nobody can change anything through it."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http.cookies import SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from prunefl.system.errors import PruneFLError

COOKIE = "prunefl_dashboard"
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Terms:
    """Under which address the page is served, and to whom.

    Attributes:
        token: what a reader must show; "" where only this machine can reach the page.
        is_tls: whether readers come by TLS, ours or a proxy's: the cookie is then sent by no other way.
        behind_proxy: whether a proxy stands before it, which has a name of its own.
    """

    host: str
    token: str = ""
    is_tls: bool = False
    behind_proxy: bool = False


def check_terms(terms: Terms) -> None:
    """Refuse an address that others can reach without token, or without TLS."""
    if is_loopback(terms.host):
        return
    if not (terms.is_tls or terms.behind_proxy):
        raise PruneFLError(
            f"--host {terms.host} can be reached from other machines: give --cert and --key for TLS, "
            "or --proxy if one with TLS stands before it"
        )
    if not terms.token:
        raise PruneFLError(f"--host {terms.host} can be reached from other machines: give --token FILE")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Access:
    """Before the app: only reading, only under our own name, only with the token where there is one."""

    def __init__(self, app: Any, terms: Terms) -> None:
        self.app, self.terms = app, terms

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, b"this page can only be read\n")
        elif not self._knows_name(headers.get(b"host", b"").decode("latin-1")):
            # another site's name that points here: its script must not read us through somebody's browser
            await _answer(send, 421, b"not served under this name\n")
        elif not self.terms.token or self._shows_token(headers):
            await self.app(scope, receive, _with_headers(send))
        elif self._is_token(_asked_token(scope)):
            await _answer(send, 303, b"", self._let_in())
        else:
            await _answer(send, 401, b"a token is needed: open the address with ?token=...\n")

    def _knows_name(self, host: str) -> bool:
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        name = name.strip("[]")
        return self.terms.behind_proxy or not is_loopback(self.terms.host) or is_loopback(name)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.terms.token.encode())

    def _shows_token(self, headers: dict[bytes, bytes]) -> bool:
        bearer = headers.get(b"authorization", b"").decode("latin-1")
        cookie: SimpleCookie = SimpleCookie()
        try:
            cookie.load(headers.get(b"cookie", b"").decode("latin-1"))
        except Exception:
            cookie = SimpleCookie()
        kept = cookie[COOKIE].value if COOKIE in cookie else ""
        return self._is_token(bearer.removeprefix("Bearer ")) or self._is_token(kept)

    def _let_in(self) -> list[tuple[bytes, bytes]]:
        """Return headers that keep the token in the browser and take it out of the address."""
        secure = "; Secure" if self.terms.is_tls or self.terms.behind_proxy else ""
        cookie = f"{COOKIE}={self.terms.token}; HttpOnly; SameSite=Strict; Path=/{secure}"
        return [(b"location", b"/"), (b"set-cookie", cookie.encode())]


def _asked_token(scope: Scope) -> str:
    query = bytes(scope.get("query_string", b"")).decode("latin-1")
    return parse_qs(query).get("token", [""])[0]


def _with_headers(send: Send) -> Send:
    async def sending(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            event = {**event, "headers": [*event.get("headers", ()), *HEADERS]}
        await send(event)

    return sending


async def _answer(
    send: Send, status: int, body: bytes, more: list[tuple[bytes, bytes]] | None = None
) -> None:
    kind = (b"content-type", b"text/plain; charset=utf-8")
    length = (b"content-length", str(len(body)).encode())
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [kind, length, *HEADERS, *(more or [])],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
