"""The access before the SuperLink: who gets through, who does not."""

import asyncio

import pytest

from prunefl.engines.flower.access import MAX_BODY, MAX_MESSAGE, AccessControl
from prunefl.engines.flower.processes import patch

SECRET = b"ab" * 32


def ask(
    access: AccessControl,
    path: str,
    client: str = "192.0.2.1",
    size: int | str = 10,
    secret: bytes = b"",
    key: bytes = b"node",
) -> int:
    """Return the status that a request gets; from the inside 200, or 401 without a key."""
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
        return {"type": "http.request", "body": b""}

    asyncio.run(access(scope, receive, send))
    return sent[0]["status"]


async def inside(scope, receive, send):
    status = 401 if (b"flwr-public-key", b"stolen") in scope["headers"] else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def access():
    return AccessControl(inside, SECRET)


def test_nodes_are_told_to_come_again_until_the_run_has_started(access):
    assert ask(access, "/v1/fleet/activate-node") == 503
    assert ask(access, "/v1/control/register-node", secret=SECRET) == 200
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


def test_one_message_cannot_fill_the_servers_memory(access):
    access.started = True
    assert ask(access, "/v1/fleet/push-messages") == 200
    statuses = [
        ask(access, "/v1/fleet/push-object", size=MAX_BODY) for _ in range(MAX_MESSAGE // MAX_BODY + 1)
    ]
    assert statuses == [200] * (MAX_MESSAGE // MAX_BODY) + [413]
    assert ask(access, "/v1/fleet/push-messages") == 200
    assert ask(access, "/v1/fleet/push-object", size=MAX_BODY) == 200


def test_who_is_refused_neither_fills_nor_empties_an_account(access):
    access.started = True
    ask(access, "/v1/fleet/push-object", size=MAX_BODY, key=b"stolen")
    assert access.pushed.get(b"stolen", 0) == 0
    access.pushed[b"stolen"] = 5
    ask(access, "/v1/fleet/push-messages", key=b"stolen")
    assert access.pushed[b"stolen"] == 5


def test_a_flower_without_what_we_change_is_refused_in_one_line():
    import math

    with pytest.raises(ValueError, match=r"no math\.cube.*flwr>=1\.41,<1\.43"):
        patch(math, cube=None)
