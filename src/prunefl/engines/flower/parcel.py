"""Parcels: a message together with its objects in one request, where Flower's protocol takes one for each.

To a SuperLink that has shown that it knows parcels (unpacking.py) what is small goes in one; what does not fit, and all
that goes to another, takes Flower's own way. This is the end of those who ask it: nodes, and the run itself.
"""

import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
from flwr.app import Message
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    PullObjectRequest,
    PullObjectResponse,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufClient, ProtobufRequestContext

from prunefl.engines.flower.chunks import CHUNK
from prunefl.engines.flower.processes import patch

HEADER = "prunefl-parcel"
"""Of a request whose sender takes parcels, and of an answer whose sender does."""

BROUGHT, ASKED = b"1", b"0"
"""The header's value: whether the body is a parcel, or only the answer may be one."""

MOST = CHUNK + (1 << 16)
"""Bytes of objects in one parcel; more takes requests of its own."""

KEPT = 256 << 20
"""Bytes of parcels that have come and were not asked for yet; nobody asks for those of a message that is given up."""

CONFIRMED = 10_000
"""Messages that the SuperLink has confirmed itself, likewise."""

_SIZE = struct.Struct("<I")


def pack(parts: Sequence[bytes]) -> bytes:
    """Return the parts as one body, each with its size before it."""
    return b"".join(piece for part in parts for piece in (_SIZE.pack(len(part)), part))


def unpack(body: bytes) -> list[bytes]:
    """Return the parts of a body; ValueError if it is none."""
    parts, at = [], 0
    while at < len(body):
        if at + _SIZE.size > len(body):
            raise ValueError("a parcel that is cut off")
        (size,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size + size
        if at > len(body):
            raise ValueError("a parcel that is cut off")
        parts.append(body[at - size : at])
    return parts


def deflate_small(messages: Iterable[Message]) -> dict[str, bytes]:
    """Return the contents of as many objects of the messages, in their order, as one parcel carries."""
    left, chosen = MOST, dict[str, bytes]()
    with no_object_id_recompute():
        for name, thing in (item for message in messages for item in get_all_nested_objects(message).items()):
            content = thing.deflate()
            left -= len(content)
            if left < 0:
                break
            chosen[name] = content
    return chosen


class Parcels:
    """Between one of Flower's clients and its connection, as one of its interceptors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known, self._bytes = False, 0
        self._objects: OrderedDict[str, list[bytes]] = OrderedDict()
        self._confirmed: OrderedDict[str, None] = OrderedDict()
        self._outgoing = threading.local()

    def join(self, client: ProtobufClient) -> None:
        """Stand between a client and its connection from now on, before all others who do."""
        patch(client, _interceptors=(self, *client._interceptors))

    @contextmanager
    def carry(self, messages: Iterable[Message]) -> Iterator[None]:
        """Let the next request of this thread that announces messages bring their objects, too."""
        self._outgoing.contents = deflate_small(messages) if self._known else {}
        try:
            yield
        finally:
            self._outgoing.contents = {}

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Send a request as a parcel, or answer it from one that has come."""
        asked = context.message
        if isinstance(asked, PullObjectRequest) and (content := self._take(asked.object_id)) is not None:
            found = PullObjectResponse(object_found=True, object_available=True, object_content=content)
            return _answer(context, found)
        if isinstance(asked, ConfirmMessageReceivedRequest) and self._is_confirmed(asked.message_object_id):
            return _answer(context, ConfirmMessageReceivedResponse())
        what = context.rpc_method.rpartition("/")[2]
        if what == "PullMessages":
            context.request.headers[HEADER] = ASKED.decode()
            return self._open(call_next(context))
        contents = getattr(self._outgoing, "contents", {})
        return call_next(_wrap(context, contents) if what == "PushMessages" and contents else context)

    def _open(self, response: httpx.Response) -> httpx.Response:
        """Return the answer to a question for messages as Flower knows it, and keep what came with it."""
        if not response.is_success:
            return response
        # a server may come back as another version of itself
        self._known = HEADER in response.headers
        if not self._known:
            return response
        answer, confirmed, *rest = unpack(response.content)
        with self._lock:
            for name, content in zip(rest[::2], rest[1::2], strict=True):
                # two messages may have the same object
                self._objects.setdefault(name.decode(), []).append(content)
                self._bytes += len(content)
            self._confirmed.update(dict.fromkeys(confirmed.decode().split()))
            while self._bytes > KEPT:
                self._bytes -= sum(map(len, self._objects.popitem(last=False)[1]))
            while len(self._confirmed) > CONFIRMED:
                self._confirmed.popitem(last=False)
        return httpx.Response(200, content=answer, request=response.request)

    def _take(self, name: str) -> bytes | None:
        with self._lock:
            waiting = self._objects.get(name)
            if not waiting:
                return None
            if len(waiting) == 1:
                del self._objects[name]
            self._bytes -= len(waiting[-1])
            return waiting.pop()

    def _is_confirmed(self, name: str) -> bool:
        with self._lock:
            return self._confirmed.pop(name, False) is None


def _answer(context: ProtobufRequestContext, answer: Any) -> httpx.Response:
    return httpx.Response(200, content=answer.SerializeToString(), request=context.request)


def _wrap(context: ProtobufRequestContext, contents: Mapping[str, bytes]) -> ProtobufRequestContext:
    """Return the request with the objects in it."""
    plain = context.request
    parts = [
        plain.content,
        *(part for name, content in contents.items() for part in (name.encode(), content)),
    ]
    headers = [(name, value) for name, value in plain.headers.multi_items() if name != "content-length"]
    headers.append((HEADER, BROUGHT.decode()))
    request = httpx.Request(
        plain.method, plain.url, headers=headers, content=pack(parts), extensions=plain.extensions
    )
    return ProtobufRequestContext(context.rpc_method, context.message, request)
