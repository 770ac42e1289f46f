"""The access before the SuperLink: who gets through, who does not."""

import asyncio
from base64 import b64encode

import pytest
from flwr.proto.control_pb2 import RegisterNodeRequest, UnregisterNodeRequest

from prunefl.engines.flower.access import MAX_BODY, AccessControl
from prunefl.engines.flower.connections import Connections
from prunefl.engines.flower.processes import patch

SECRET = b"ab" * 32


def ask(
    access: AccessControl,
    path: str,
    client: str = "192.0.2.1",
    size: int | str = 10,
    secret: bytes = b"",
    key: bytes = b64encode(b"key"),
    body: bytes = b"",
    read: list[int] | None = None,
) -> int:
    """Return the status that a request gets; from the inside 200."""
    headers = [
        (b"content-length", str(size).encode()),
        (b"prunefl-secret", secret),
        (b"flwr-public-key", key),
    ]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    scope |= {"client": (client, 1), "server": ("192.0.2.7", 9092)}
    sent = []

    async def send(event):
        sent.append(event)

    async def receive():
        if read is not None:
            read.append(1)
        return {"type": "http.request", "body": body}

    asyncio.run(access(scope, receive, send))
    return sent[0]["status"]


async def inside(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def access():
    access = AccessControl(inside, SECRET, Connections(), lambda: 1000)
    register = RegisterNodeRequest(public_key=b"key").SerializeToString()
    assert ask(access, "/v1/control/register-node", secret=SECRET, body=register) == 200
    return access


def test_nodes_are_told_to_come_again_until_the_run_has_started(access):
    assert ask(access, "/v1/fleet/activate-node") == 503
    assert ask(access, "/v1/control/start-run", secret=SECRET) == 200
    assert ask(access, "/v1/fleet/activate-node") == 200


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/control/register-node", "/v1/control/stop-run"]
)
@pytest.mark.parametrize("secret", [b"", b"ab" * 31 + b"ac"])
def test_nobody_controls_the_superlink_without_the_secret_not_even_from_here(access, path, secret):
    assert ask(access, path, client="127.0.0.1", secret=secret) == 403
    assert not access.started


def test_the_runtime_api_answers_this_machine_only(access):
    assert ask(access, "/v1/runtime/acquire-task", client="192.0.2.1") == 403
    assert ask(access, "/v1/runtime/acquire-task", client="127.0.0.1") == 200
    # a server that listens on one address of this machine is reached, and reaches itself, at it
    assert ask(access, "/v1/runtime/acquire-task", client="192.0.2.7") == 200


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/", "/v2/fleet/x"])
def test_nothing_else_is_there(access, path):
    assert ask(access, path) == 404


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY, 503), (MAX_BODY + 1, 413), ("", 411), ("-1", 411)])
def test_a_request_says_its_size_and_keeps_to_the_limit(access, size, status):
    assert ask(access, "/v1/fleet/push-object", size=size) == status


def test_nothing_of_a_strangers_body_is_read(access):
    access.started = True
    read: list[int] = []
    assert ask(access, "/v1/fleet/push-object", key=b64encode(b"stranger"), size=MAX_BODY, read=read) == 400
    assert ask(access, "/v1/fleet/push-object", key=b"", size=MAX_BODY, read=read) == 400
    assert read == []
    # without keys (--insecure) nodes make up their own
    access.keyed = False
    assert ask(access, "/v1/fleet/activate-node", key=b"") == 200


def test_a_node_that_was_unregistered_is_a_stranger_again(access):
    access.started = True
    assert ask(access, "/v1/fleet/activate-node") == 200
    # what is inside answers nothing, which as a protobuf is node 0
    body = UnregisterNodeRequest(node_id=0).SerializeToString()
    assert ask(access, "/v1/control/unregister-node", body=body) == 403
    assert ask(access, "/v1/control/unregister-node", secret=SECRET, body=body) == 200
    assert ask(access, "/v1/fleet/activate-node") == 400


def test_what_a_node_may_not_do_the_superlink_does_not_see(access):
    access.started = True
    assert ask(access, "/v1/fleet/push-messages", body=b"garbage") == 403
    assert ask(access, "/v1/fleet/unregister-node") == 403


def test_a_flower_without_what_we_change_is_refused_in_one_line():
    import math

    with pytest.raises(ValueError, match=r"no math\.cube.*flwr>=1\.41,<1\.43"):
        patch(math, cube=None)


def test_one_member_cannot_take_the_memory_of_all_for_bodies_that_never_come(access):
    """Of two members one keeps as many requests open as it can; those of the others are taken all the same."""
    for name in (b"honest", b"greedy"):
        register = RegisterNodeRequest(public_key=name).SerializeToString()
        assert ask(access, "/v1/control/register-node", secret=SECRET, body=register) == 200
    access.started, statuses = True, {b"honest": [], b"greedy": []}

    async def request(name, event):
        headers = [(b"content-length", str(MAX_BODY).encode()), (b"flwr-public-key", b64encode(name))]
        scope = {"type": "http", "method": "POST", "path": "/v1/fleet/pull-messages", "headers": headers}
        scope |= {"client": ("192.0.2.1", 1), "server": ("192.0.2.7", 9092)}

        async def receive():
            await event.wait()
            return {"type": "http.request", "body": b""}

        async def send(answer):
            if answer["type"] == "http.response.start":
                statuses[name].append(answer["status"])

        await access(scope, receive, send)

    async def attack():
        event = asyncio.Event()
        greedy = [asyncio.create_task(request(b"greedy", event)) for _ in range(40)]
        await asyncio.sleep(0)
        assert statuses[b"greedy"] == [503] * 36
        honest = asyncio.create_task(request(b"honest", event))
        await asyncio.sleep(0)
        event.set()
        await asyncio.gather(*greedy, honest)
        # what is over counts no more
        await request(b"greedy", event)

    asyncio.run(attack())
    assert statuses == {b"honest": [200], b"greedy": [503] * 36 + [200] * 5}
