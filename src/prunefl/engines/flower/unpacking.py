"""Parcels at the SuperLink: one request that stands for several is taken apart, and each is served as if it came alone.

Each goes through the same checks as any other, in the name of whoever sent the parcel; one that is refused is left for
its sender to ask again by itself, so that the refusal is Flower's own. parcel.py is the other end.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from flwr.proto.fleet_pb2 import (
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    PullAppMessagesRequest,
    PullAppMessagesResponse,
    PushAppMessagesRequest,
    PushAppMessagesResponse,
)
from google.protobuf.message import DecodeError

from prunefl.engines.flower.ledger import FLEET, RUNTIME, SUPERLINK, list_objects
from prunefl.engines.flower.parcel import BROUGHT, HEADER, MOST, pack, unpack

Scope = dict[str, Any]
Event = dict[str, Any]
Send = Callable[[Event], Awaitable[None]]
Serve = Callable[[Scope, bytes, Send], Awaitable[None]]
"""Serves one request: whose, its body, and where its answer goes."""

Kinds = tuple[Any, Any]
"""What a request is, and its answer."""

PULLS: dict[str, Kinds] = {
    FLEET + "pull-messages": (PullMessagesRequest, PullMessagesResponse),
    RUNTIME + "pull-messages": (PullAppMessagesRequest, PullAppMessagesResponse),
}
PUSHES: dict[str, Kinds] = {
    FLEET + "push-messages": (PushMessagesRequest, PushMessagesResponse),
    RUNTIME + "push-messages": (PushAppMessagesRequest, PushAppMessagesResponse),
}


def is_parcel(scope: Scope) -> bool:
    """Return whether a request is a parcel, or asks for one."""
    named = any(name == HEADER.encode() for name, _ in scope["headers"])
    return named and (scope["path"] in PULLS or (scope["path"] in PUSHES and _is_brought(scope)))


async def serve_parcel(serve: Serve, scope: Scope, body: bytes, send: Send) -> None:
    """Serve all that a parcel stands for, by the given function for one request, and answer with a parcel."""
    if scope["path"] in PULLS:
        await _give(serve, scope, body, send)
    else:
        await _take(serve, scope, body, send)


class _Collected:
    """The answer to one of the requests, kept here."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, list[tuple[bytes, bytes]](), bytearray()

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self.status, self.headers = event["status"], list(event["headers"])
        else:
            self.body.extend(event.get("body", b""))

    async def pass_on(self, send: Send) -> None:
        """Answer with this one."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": bytes(self.body)})


async def _give(serve: Serve, scope: Scope, body: bytes, send: Send) -> None:
    """Answer a question for messages with those that are there and their objects, and confirm what is whole."""
    asked, answered = PULLS[scope["path"]]
    first = _Collected()
    await serve(scope, body, first)
    if first.status != 200:
        await first.pass_on(send)
        return
    node = _read_node(asked.FromString(body))
    response, left = answered.FromString(bytes(first.body)), MOST
    confirmed, parts = list[str](), list[bytes]()
    for message, tree in zip(response.messages_list, response.message_object_trees, strict=True):
        run, whole = message.metadata.run_id, True
        for name in dict.fromkeys(list_objects(tree)):
            content = await _read_object(
                serve, scope, PullObjectRequest(node=node, run_id=run, object_id=name)
            )
            if content is None or len(content) > left:
                whole = False
                break
            left -= len(content)
            parts += [name.encode(), content]
        if whole:
            about = ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=tree.object_id)
            if (await _ask(serve, scope, "confirm-message-received", about)).status == 200:
                confirmed.append(tree.object_id)
    await _answer(send, pack([bytes(first.body), " ".join(confirmed).encode(), *parts]), is_parcel=True)


async def _take(serve: Serve, scope: Scope, body: bytes, send: Send) -> None:
    """Take announced messages and the objects that came with them; answer with what is still to come."""
    asked, answered = PUSHES[scope["path"]]
    first = _Collected()
    try:
        plain, *rest = unpack(body)
        request = asked.FromString(plain)
        contents = {name.decode(): content for name, content in zip(rest[::2], rest[1::2], strict=True)}
    except (ValueError, DecodeError):
        await send({"type": "http.response.start", "status": 400, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    await serve(_as(scope, scope["path"], plain), plain, first)
    if first.status != 200:
        await first.pass_on(send)
        return
    response, node = answered.FromString(bytes(first.body)), _read_node(request)
    missing = []
    for name in response.objects_to_push:
        piece = PushObjectRequest(
            node=node,
            run_id=request.messages_list[0].metadata.run_id,
            session_id=response.session_id,
            object_id=name,
            object_content=contents.get(name, b""),
        )
        if name not in contents or not await _write_object(serve, scope, piece):
            missing.append(name)
    del response.objects_to_push[:]
    response.objects_to_push.extend(missing)
    await _answer(send, response.SerializeToString())


async def _read_object(serve: Serve, scope: Scope, asked: PullObjectRequest) -> bytes | None:
    """Return an object's content, None if it is not there, or not yet."""
    answer = await _ask(serve, scope, "pull-object", asked)
    if answer.status != 200:
        return None
    found = PullObjectResponse.FromString(bytes(answer.body))
    return bytes(found.object_content) if found.object_available else None


async def _write_object(serve: Serve, scope: Scope, piece: PushObjectRequest) -> bool:
    answer = await _ask(serve, scope, "push-object", piece)
    return answer.status == 200 and PushObjectResponse.FromString(bytes(answer.body)).stored


async def _ask(serve: Serve, scope: Scope, name: str, request: Any) -> _Collected:
    """Serve another request of whoever sent the parcel."""
    body, answer = request.SerializeToString(), _Collected()
    place = FLEET if scope["path"].startswith(FLEET) else RUNTIME
    await serve(_as(scope, place + name, body), body, answer)
    return answer


def _as(scope: Scope, path: str, body: bytes) -> Scope:
    """Return what says of a request whose it is, for another one of the same sender."""
    headers = [
        (name, value) for name, value in scope["headers"] if name not in (b"content-length", HEADER.encode())
    ]
    own = {"path": path, "raw_path": path.encode(), "state": dict(scope.get("state", {}))}
    return {**scope, **own, "headers": [*headers, (b"content-length", b"%d" % len(body))]}


def _read_node(request: Any) -> Node:
    """Return who asks: a node by its number, and the run as the SuperLink itself."""
    return request.node if hasattr(request, "node") else Node(node_id=SUPERLINK)


def _is_brought(scope: Scope) -> bool:
    return (HEADER.encode(), BROUGHT) in scope["headers"]


async def _answer(send: Send, body: bytes, is_parcel: bool = False) -> None:
    headers = [(b"content-type", b"application/protobuf"), (b"content-length", b"%d" % len(body))]
    if is_parcel:
        headers.append((HEADER.encode(), BROUGHT))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
