"""The short way: who is known is answered by Flower's own handlers, and whatever else goes the long way, untouched."""

import asyncio
from types import SimpleNamespace

import pytest
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.node_pb2 import Node

from prunefl.engines.flower import shortcut
from prunefl.engines.flower.ledger import FLEET, RUNTIME
from prunefl.engines.flower.shortcut import NODES, TASKS, Shortcut


class State:
    """A SuperLink's state with one object, and one task with one token."""

    object_store = None

    def get_task_by_token(self, token: str):
        return SimpleNamespace(run_id=5) if token == "right" else None

    def get_object(self, run: int, name: str) -> bytes | None:
        return {(5, "here"): b"content"}.get((run, name))


def ask(path: str, body: bytes, headers: dict[str, str] | None = None, method: str = "POST"):
    """Return the status and the body of the answer, and the body that went the long way, None if none did."""
    sent, long = [], []

    async def app(scope, receive, send) -> None:
        long.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"in Flower's words"})

    parts = [body[:3], body[3:]]

    async def receive():
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(event) -> None:
        sent.append(event)

    factory = SimpleNamespace(state=State)
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "state": {}}
    scope["app"] = SimpleNamespace(state=SimpleNamespace(linkstate_factory=factory))
    scope["headers"] = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    asyncio.run(Shortcut(app)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], long[0] if long else None


def pull(name: str, node: int = 1) -> bytes:
    return PullObjectRequest(node=Node(node_id=node), run_id=5, object_id=name).SerializeToString()


def test_a_task_with_its_token_is_answered_at_once() -> None:
    token = {shortcut.TASK_TOKEN_HEADER: "right"}
    status, body, long = ask(RUNTIME + "pull-object", pull("here"), token)
    assert (status, long) == (200, None)
    assert PullObjectResponse.FromString(body).object_content == b"content"
    status, body, long = ask(RUNTIME + "pull-object", pull("elsewhere"), token)
    assert (status, long) == (200, None)
    assert not PullObjectResponse.FromString(body).object_found


@pytest.mark.parametrize("token", [{}, {shortcut.TASK_TOKEN_HEADER: "wrong"}])
def test_nobody_gets_anything_without_the_right_token(token: dict[str, str]) -> None:
    for name in TASKS:
        asked = pull("here")
        assert ask(RUNTIME + name, asked, token)[0] == 401, name


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_shows_no_signature_is_nobody(name: str, monkeypatch) -> None:
    """Flower's own check is asked before any handler, and its handler is not reached."""
    reached = []
    monkeypatch.setitem(NODES, name, (NODES[name][0], lambda *given: reached.append(given)))
    status, _, long = ask(FLEET + name, b"")
    assert (status, long, reached) == (401, b"", [])


def test_what_is_refused_goes_the_long_way_with_all_of_its_body() -> None:
    asked = pull("here", node=9)
    assert ask(RUNTIME + "pull-object", asked, {shortcut.TASK_TOKEN_HEADER: "right"}) == (
        401,
        b"in Flower's words",
        asked,
    )
    assert ask(RUNTIME + "pull-object", b"\xff" * 9)[2] == b"\xff" * 9


@pytest.mark.parametrize(
    "path", [FLEET + "activate-node", RUNTIME + "acquire-task", "/health", "pull-object"]
)
def test_all_else_goes_the_long_way(path: str) -> None:
    assert ask(path, b"abc")[0] == 401
