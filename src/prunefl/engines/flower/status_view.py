"""A run's status for who may look but not touch: over the server's own TLS, with a read-only token."""

import hashlib
import hmac
import http.client
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunefl.engines.flower.status import MAX_BYTES, parse_status
from prunefl.system.errors import PruneFLError

# keys are read by `prunefl client`, which waits for no Flower
if TYPE_CHECKING:
    from prunefl.engines.flower.access import Receive, Scope, Send

PATH = "/prunefl/status"
HEADER = "prunefl-token"
SECONDS = 10.0


def token_digest(token: str) -> str:
    """Return what the server knows of a token: enough to recognise it, too little to use it."""
    return hashlib.sha256(token.encode()).hexdigest()


class StatusView:
    """Before all else at the SuperLink: answers `GET /prunefl/status` to who shows the token, and nothing more.

    Args:
        digest: of the token.
        file: the status file, read anew for every request.
    """

    def __init__(self, app: Any, digest: str, file: Path) -> None:
        self.app, self.digest, self.file = app, digest, file

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self.app(scope, receive, send)
            return
        status, body = self.answer(scope)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def answer(self, scope: "Scope") -> tuple[int, bytes]:
        """Return the HTTP status and what comes with it."""
        if scope["method"] != "GET":
            return 405, b""
        given = dict(scope["headers"]).get(HEADER.encode(), b"").decode("latin-1")
        if not hmac.compare_digest(token_digest(given), self.digest):
            return 403, b""
        try:
            return 200, self.file.read_bytes()
        except FileNotFoundError:
            return 503, b""


def fetch_status(server: str, folder: Path) -> dict[str, Any]:
    """Return the status of the run at HOST:PORT, as `read_status` does; ValueError in one line if it cannot.

    Args:
        folder: the `viewer` folder that `prunefl keys` made.
    """
    from prunefl.engines.flower.certificates import read_certificate
    from prunefl.engines.flower.join import explain_certificate_error, parse_address
    from prunefl.engines.flower.keys import read_token

    host, port = parse_address(server)
    read_certificate(folder / "ca.pem")
    token = read_token(folder)
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    line = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)
    try:
        line.request("GET", PATH, headers={HEADER: token})
        answer = line.getresponse()
        body = answer.read(MAX_BYTES + 1)
    except ssl.SSLCertVerificationError as error:
        raise PruneFLError(explain_certificate_error(host, port, error)) from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PruneFLError(f"{server} does not answer ({why}); is `prunefl server` running there?") from None
    finally:
        line.close()
    return _understand(server, folder, answer.status, body)


def _understand(server: str, folder: Path, status: int, body: bytes) -> dict[str, Any]:
    reasons = {
        403: f"does not know the token in {folder}; take the viewer folder that was made for this federation",
        404: "shows no status; `prunefl keys` on its folder of keys adds a viewer, then restart it with --resume",
        503: "has no status yet; the run is starting",
    }
    if status != 200:
        raise PruneFLError(f"{server} {reasons.get(status, f'answers with HTTP status {status}')}")
    return parse_status(body, server)
