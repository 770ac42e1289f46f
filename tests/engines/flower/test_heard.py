"""When nodes last asked for work is noted of those that the SuperLink knows, and of no request that it refused."""

import asyncio
from pathlib import Path

import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node

from prunefl.engines.flower import heard as module
from prunefl.engines.flower.heard import PULL, Heard, HeardNodes, read_heard


def ask(path: Path, body: bytes, status: int = 200, url: str = PULL) -> None:
    async def inside(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(event):
        pass

    asyncio.run(HeardNodes(inside, Heard(path))({"type": "http", "path": url}, receive, send))


def pull(node: int) -> bytes:
    return PullMessagesRequest(node=Node(node_id=node)).SerializeToString()


def test_a_granted_request_for_work_is_noted(tmp_path: Path) -> None:
    ask(tmp_path / module.FILE, pull(2**63 + 5))
    assert list(read_heard(tmp_path)) == [2**63 + 5]


@pytest.mark.parametrize(
    ("body", "status", "url"),
    [
        (pull(7), 401, PULL),
        (pull(7), 200, "/v1/fleet/push-messages"),
        (b"\xff" * 40, 200, PULL),
        (b"", 200, PULL),
        (pull(7) + b"\0" * 5000, 200, PULL),
    ],
)
def test_nothing_else_is(tmp_path: Path, body: bytes, status: int, url: str) -> None:
    ask(tmp_path / module.FILE, body, status, url)
    assert read_heard(tmp_path) == {}


def test_the_longest_silence_is_that_of_late(tmp_path: Path, monkeypatch) -> None:
    clock = iter([100.0, 101.0, 109.0, *(109.0 + n for n in range(1, 30))])
    monkeypatch.setattr(module.time, "time", lambda: next(clock))
    monkeypatch.setattr(module, "_WRITE_SECONDS", -1.0)
    heard = module.Heard(tmp_path / module.FILE)
    for _ in range(4):
        heard.note(7)
    assert read_heard(tmp_path)[7] == (110.0, 8.0)
    for _ in range(10):
        heard.note(7)
    assert read_heard(tmp_path)[7] == (120.0, 1.0)


@pytest.mark.parametrize("text", ["", "[]", '{"a": [1, 2]}', '{"1": 3}', '{"1": ["x", 2]}'])
def test_a_damaged_file_is_no_word_of_anybody(tmp_path: Path, text: str) -> None:
    (tmp_path / module.FILE).write_text(text)
    assert read_heard(tmp_path) == {}
