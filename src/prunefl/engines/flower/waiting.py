"""The waiting room before the SuperLink: a node's question for messages is kept until there is one.

Flower answers at once, mostly that there is nothing, so that nodes have to ask again and again: often, and many idle
ones load the server; seldom, and every message waits. What is kept is the answer that there is nothing: a node that has
it asks again, so no message is lost where a kept connection has died unseen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from flwr.proto.fleet_pb2 import (
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.proto.runtime_pb2 import PushAppMessagesRequest, PushAppMessagesResponse
from google.protobuf.message import DecodeError

from prunefl.engines.flower.ledger import FLEET, RUNTIME, list_objects

HOLD_SECONDS = 20.0
"""For which a question is kept at most; a node gives up after 30."""

SIGN_SECONDS = 2.0
"""So often it is noted that a node waits, whose connection is still there."""

MOST_ON_THE_WAY = 10_000
"""Messages whose objects have not all come; one that was broken off is forgotten when there are so many others."""

Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class OnTheWay:
    """Messages that were announced, until the last of their objects is there: earlier nobody can read them."""

    def __init__(self) -> None:
        self._missing: dict[tuple[str, Any], set[str]] = {}

    def announce(self, name: str, goal: Any, objects: Iterable[str]) -> list[Any]:
        """Enter a message with the objects that are still to come; return its goal if there are none."""
        missing = set(objects)
        if not missing:
            return [goal]
        self._missing[name, goal] = missing
        while len(self._missing) > MOST_ON_THE_WAY:
            del self._missing[next(iter(self._missing))]
        return []

    def arrive(self, name: str) -> list[Any]:
        """Enter an object; return the goals of messages that are whole now."""
        whole = []
        for about, missing in self._missing.items():
            missing.discard(name)
            if not missing:
                whole.append(about)
        for about in whole:
            del self._missing[about]
        return [goal for _, goal in whole]


class WaitingRoom:
    """Behind access control, before the SuperLink.

    Args:
        heard: told of a node whose question is kept, now and then: it is there.
        ring: called when an answer of a node is there, whole.
    """

    def __init__(self, app: Any, heard: Callable[[int], None], ring: Callable[[], None]) -> None:
        self.app, self._heard, self._ring = app, heard, ring
        self._kept: dict[int, list[asyncio.Event]] = {}
        self._orders, self._answers = OnTheWay(), OnTheWay()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path == FLEET + "pull-messages":
            await self._keep(scope, receive, send)
        elif scope["type"] == "http" and path in self._watched:
            await self._watch(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _keep(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Pass on a question for messages; keep the answer if it is that there are none."""
        body, events, bell = bytearray(), list[Event](), asyncio.Event()
        node = 0

        async def receiving() -> Event:
            nonlocal node
            event = await receive()
            body.extend(event.get("body", b""))
            if not node and (node := _read_node(bytes(body))):
                # before the SuperLink looks, so that what comes in between is not missed
                self._kept.setdefault(node, []).append(bell)
            return event

        async def sending(event: Event) -> None:
            events.append(event)

        try:
            await self.app(scope, receiving, sending)
            if node and _says_nothing(events):
                await self._wait(node, bell, receive)
        finally:
            if node:
                self._forget(node, bell)
        for event in events:
            await send(event)

    def _forget(self, node: int, bell: asyncio.Event) -> None:
        self._kept[node].remove(bell)
        if not self._kept[node]:
            del self._kept[node]

    async def _wait(self, node: int, bell: asyncio.Event, receive: Receive) -> None:
        """Return when there is a message for the node, when it is gone, or when time is up."""
        for former in self._kept[node]:
            # one question of a node at a time is kept; the SuperLink has just granted that it is this node's
            if former is not bell:
                former.set()
        loop = asyncio.get_running_loop()
        limit = loop.time() + HOLD_SECONDS
        gone, rung = asyncio.ensure_future(_see_it_go(receive)), asyncio.ensure_future(bell.wait())
        try:
            while (left := limit - loop.time()) > 0:
                done, _ = await asyncio.wait(
                    {gone, rung}, timeout=min(SIGN_SECONDS, left), return_when=asyncio.FIRST_COMPLETED
                )
                if done:
                    return
                self._heard(node)
        finally:
            for task in (gone, rung):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    @property
    def _watched(self) -> dict[str, Callable[[bytes, bytes], None]]:
        return {
            RUNTIME + "push-messages": self._note_orders,
            RUNTIME + "push-object": self._note_piece_of_order,
            FLEET + "push-messages": self._note_answer,
            FLEET + "push-object": self._note_piece_of_answer,
        }

    async def _watch(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Pass on a message or a piece of one; once the SuperLink has it, see whom it is for."""
        note, body, answer, granted = self._watched[scope["path"]], bytearray(), bytearray(), False

        async def receiving() -> Event:
            event = await receive()
            body.extend(event.get("body", b""))
            return event

        async def sending(event: Event) -> None:
            nonlocal granted
            granted = granted or (event["type"] == "http.response.start" and event["status"] == 200)
            answer.extend(event.get("body", b""))
            await send(event)

        await self.app(scope, receiving, sending)
        if granted:
            with suppress(DecodeError):
                note(bytes(body), bytes(answer))

    def _note_orders(self, body: bytes, answer: bytes) -> None:
        request = PushAppMessagesRequest.FromString(body)
        wanted = set(PushAppMessagesResponse.FromString(answer).objects_to_push)
        for message, tree in zip(request.messages_list, request.message_object_trees, strict=False):
            about = message.metadata
            objects = wanted & set(list_objects(tree))
            self._wake(self._orders.announce(about.message_id, about.dst_node_id, objects))

    def _note_piece_of_order(self, body: bytes, answer: bytes) -> None:
        self._wake(self._orders.arrive(PushObjectRequest.FromString(body).object_id))

    def _note_answer(self, body: bytes, answer: bytes) -> None:
        request = PushMessagesRequest.FromString(body)
        wanted = set(PushMessagesResponse.FromString(answer).objects_to_push)
        for message, tree in zip(request.messages_list, request.message_object_trees, strict=False):
            if self._answers.announce(message.metadata.message_id, 0, wanted & set(list_objects(tree))):
                self._ring()

    def _note_piece_of_answer(self, body: bytes, answer: bytes) -> None:
        if self._answers.arrive(PushObjectRequest.FromString(body).object_id):
            self._ring()

    def _wake(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            for bell in self._kept.get(node, ()):
                bell.set()


async def _see_it_go(receive: Receive) -> None:
    """Return when the other end has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _read_node(body: bytes) -> int:
    """Return which node asks, 0 if that cannot be read, or not yet."""
    try:
        return int(PullMessagesRequest.FromString(body).node.node_id)
    except DecodeError:
        return 0


def _says_nothing(events: list[Event]) -> bool:
    """Return whether a granted answer has no message."""
    if not events or events[0].get("status") != 200:
        return False
    body = b"".join(event.get("body", b"") for event in events)
    try:
        return not PullMessagesResponse.FromString(body).messages_list
    except DecodeError:
        return False
