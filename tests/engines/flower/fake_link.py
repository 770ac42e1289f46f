"""A SuperLink of one message behind our access control, and one of Flower's clients that asks it."""

import asyncio

import httpx
from flwr.app import Message
from flwr.app.message.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.supercore.task_identity import TaskIdentity

from prunefl.engines.flower.access import AccessControl
from prunefl.engines.flower.chunks import CHUNK, to_records
from prunefl.engines.flower.connections import Connections
from prunefl.engines.flower.ledger import FLEET, list_objects
from prunefl.engines.flower.parcel import Parcels

NODE = 7
NAMES = {
    "PullMessages": ("pull-messages", PullMessagesResponse),
    "PushMessages": ("push-messages", PushMessagesResponse),
    "PullObject": ("pull-object", PullObjectResponse),
    "PushObject": ("push-object", PushObjectResponse),
    "ConfirmMessageReceived": ("confirm-message-received", ConfirmMessageReceivedResponse),
}


def write(data: bytes, reply_to: Message | None = None) -> Message:
    message = (
        Message(to_records(data), reply_to=reply_to) if reply_to else Message(to_records(data), NODE, "train")
    )
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def contents_of(message: Message) -> dict[str, bytes]:
    return {name: thing.deflate() for name, thing in get_all_nested_objects(message).items()}


class Link:
    """A SuperLink with one message for node 7, behind our access control; `requests` are those that came over HTTP."""

    def __init__(self, message: Message) -> None:
        self.message, self.objects = message, contents_of(message)
        self.waiting, self.confirmed = True, list[str]()
        self.announced, self.stored = set[str](), dict[str, bytes]()
        self.requests = list[str]()
        self.access = AccessControl(self._inside, b"secret", Connections(), lambda: 10 * CHUNK, keyed=False)
        self.access.started = True

    async def _inside(self, scope, receive, send) -> None:
        answer = getattr(self, "_" + scope["path"].removeprefix(FLEET).replace("-", "_"))(
            (await receive())["body"]
        )
        body = answer.SerializeToString()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    def _pull_messages(self, body: bytes):
        if not self.waiting:
            return PullMessagesResponse()
        self.waiting = False
        bare = message_to_proto(remove_content_from_message(self.message))
        return PullMessagesResponse(
            messages_list=[bare], message_object_trees=[get_object_tree(self.message)]
        )

    def _pull_object(self, body: bytes):
        content = self.objects.get(PullObjectRequest.FromString(body).object_id)
        there = content is not None
        return PullObjectResponse(object_found=there, object_available=there, object_content=content or b"")

    def _confirm_message_received(self, body: bytes):
        self.confirmed.append(ConfirmMessageReceivedRequest.FromString(body).message_object_id)
        return ConfirmMessageReceivedResponse()

    def _push_messages(self, body: bytes):
        self.announced = set(list_objects(PushMessagesRequest.FromString(body).message_object_trees[0]))
        return PushMessagesResponse(objects_to_push=sorted(self.announced), session_id="session")

    def _push_object(self, body: bytes):
        request = PushObjectRequest.FromString(body)
        fits = request.session_id == "session" and request.object_id in self.announced
        if fits:
            self.stored[request.object_id] = request.object_content
        return PushObjectResponse(stored=fits)

    def serve(self, request: httpx.Request) -> httpx.Response:
        """Answer an HTTP request."""
        path = request.url.path
        self.requests.append(path.removeprefix(FLEET))
        sent, body = [], request.content
        scope = {"type": "http", "method": "POST", "path": path, "client": ("192.0.2.1", 1)}
        scope["headers"] = [(name.lower(), value) for name, value in request.headers.raw]

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(event) -> None:
            sent.append(event)

        asyncio.run(self.access(scope, receive, send))
        return httpx.Response(
            sent[0]["status"], headers=sent[0]["headers"], content=sent[1]["body"], request=request
        )


class Client:
    """One of Flower's clients with parcels on its line."""

    def __init__(self, link: Link, parcels: Parcels) -> None:
        self.link, self.parcels = link, parcels

    def ask(self, what: str, message):
        """Return what Flower's code gets for a request."""
        path, kind = NAMES[what]
        request = httpx.Request("POST", f"http://there{FLEET}{path}", content=message.SerializeToString())
        context = ProtobufRequestContext(f"/flwr.proto.Fleet/{what}", message, request)
        response = self.parcels.intercept(context, lambda context: self.link.serve(context.request))
        return kind.FromString(response.raise_for_status().content)

    def receive(self) -> dict[str, bytes]:
        """Take the message, as Flower's code does: its objects one by one, then it is confirmed."""
        response = self.ask("PullMessages", PullMessagesRequest(node=Node(node_id=NODE)))
        found = {}
        for name in get_all_nested_objects(self.link.message):
            asked = PullObjectRequest(node=Node(node_id=NODE), run_id=2, object_id=name)
            found[name] = self.ask("PullObject", asked).object_content
        name = response.message_object_trees[0].object_id
        asked = ConfirmMessageReceivedRequest(node=Node(node_id=NODE), run_id=2, message_object_id=name)
        self.ask("ConfirmMessageReceived", asked)
        return found

    def send(self, reply: Message) -> list[str]:
        """Send the reply, as Flower's code does; return what was sent alone."""
        bare = message_to_proto(remove_content_from_message(reply))
        with self.parcels.carry([reply]):
            response = self.ask(
                "PushMessages",
                PushMessagesRequest(
                    node=Node(node_id=NODE),
                    messages_list=[bare],
                    message_object_trees=[get_object_tree(reply)],
                ),
            )
        for name in response.objects_to_push:
            content = contents_of(reply)[name]
            piece = PushObjectRequest(
                node=Node(node_id=NODE),
                run_id=2,
                object_id=name,
                object_content=content,
                session_id="session",
            )
            assert self.ask("PushObject", piece).stored
        return list(response.objects_to_push)


def answer_to(message: Message, data: bytes, monkeypatch) -> Message:
    monkeypatch.setattr(TaskIdentity, "_node_id", NODE)
    return write(data, reply_to=message)
