"""The status from another machine: over TLS, to who shows the token, and to nobody else."""

import asyncio
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.engines.flower import keys
from prunefl.engines.flower.status_view import HEADER, PATH, StatusView, fetch_status, token_digest

CONTENT = {
    "phase": "training",
    "round": 3,
    "rounds": 9,
    "density": 0.5,
    "bytes_up": 10,
    "bytes_down": 20,
    "updated": 0.0,
    "classes": ["crack", "ok"],
    "turned_away": {"7": "--client 7, must be < data.clients=2"},
    "nodes": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys")
    keys.make_keys(path, ["localhost"], 1, days=1)
    return path


async def beyond(scope, receive, send):
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def ask(view, path=PATH, token="", method="GET"):
    """Return status and body of the view's answer; 299 is what lies behind it."""
    scope = {"type": "http", "method": method, "path": path, "headers": [(HEADER.encode(), token.encode())]}
    sent = []

    async def send(event):
        sent.append(event)

    asyncio.run(view(scope, None, send))
    return sent[0]["status"], sent[1]["body"]


def test_the_token_shows_the_status_and_nothing_else_does(tmp_path):
    file = tmp_path / "status.json"
    view = StatusView(beyond, token_digest("t"), file)
    assert ask(view, token="t") == (503, b"")
    file.write_text("{}")
    assert ask(view, token="t") == (200, b"{}")
    # the digest that the server keeps is no token
    for wrong in ("", "T", "tt", token_digest("t")):
        assert ask(view, token=wrong) == (403, b"")
    assert ask(view, token="t", method="POST") == (405, b"")
    assert ask(view, path=PATH + "/x", token="t") == (299, b"")
    assert ask(view, path="/v1/fleet/activate-node") == (299, b"")


@pytest.fixture
def server(folder, tmp_path):
    """Serve a status over TLS on loopback as the SuperLink would; give its address."""
    (tmp_path / "status.json").write_text(json.dumps(CONTENT))
    view = StatusView(beyond, keys.read_token_digest(folder), tmp_path / "status.json")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = ask(view, self.path, self.headers.get(HEADER, ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    line = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    line.socket = context.wrap_socket(line.socket, server_side=True)
    thread = threading.Thread(target=line.serve_forever, args=(0.05,))
    thread.start()
    yield f"localhost:{line.server_port}"
    line.shutdown()
    thread.join()
    line.server_close()


def test_a_viewer_sees_what_the_server_wrote(folder, server):
    shown = CliRunner().invoke(
        app, ["status", "--server", server, "--keys", str(folder / "viewer"), "--json"]
    )
    assert json.loads(shown.stdout) == CONTENT
    shown = CliRunner().invoke(app, ["status", "--server", server, "--keys", str(folder / "viewer")])
    assert "training: round 3 of 9, density 0.5000" in shown.stdout
    assert "turned away: client 7: --client 7, must be < data.clients=2" in shown.stdout


def test_every_way_in_which_it_fails_is_one_line_with_a_remedy(folder, server, tmp_path):
    other = tmp_path / "other"
    keys.make_keys(other, ["localhost"], 1, days=1)
    with pytest.raises(ValueError, match="its certificate is not accepted"):
        fetch_status(server, other / "viewer")
    (other / "viewer" / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    with pytest.raises(ValueError, match=r"does not know the token in .*viewer"):
        fetch_status(server, other / "viewer")
    with pytest.raises(ValueError, match=r"status\.token: cannot be read; give --keys the viewer folder"):
        fetch_status(server, folder / "client-0")
    with pytest.raises(ValueError, match=r"does not answer .*is `prunefl server` running there"):
        fetch_status("127.0.0.1:1", folder / "viewer")
    for words in (["--server", server], ["--keys", "viewer"], ["runs/x", "--server", "h:1", "--keys", "v"]):
        assert isinstance(CliRunner().invoke(app, ["status", *words]).exception, ValueError)


def test_the_servers_folder_does_not_hold_the_token_and_keeps_it_when_clients_are_added(folder):
    token, digest = keys.read_token(folder / "viewer"), keys.read_token_digest(folder)
    assert token not in digest
    assert (folder / "viewer" / "status.token").stat().st_mode & 0o077 == 0
    keys.make_keys(folder, ["localhost"], 2, days=1)
    assert (keys.read_token(folder / "viewer"), keys.read_token_digest(folder)) == (token, digest)
