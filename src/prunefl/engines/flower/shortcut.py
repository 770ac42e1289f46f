"""The short way to the SuperLink for requests of which every message takes many: Flower's own checks and handlers.

On the long way a request goes through nine layers that mostly concern others: 6 ms of computing in place of 2, and an
order and its answer take twenty requests. Whatever is not granted goes the long way after all, so that Flower refuses
it in its own words.
"""

from collections.abc import Callable, MutableMapping
from typing import Any

from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.runtime_pb2 import GetNodesRequest, PullAppMessagesRequest, PushAppMessagesRequest
from flwr.supercore.constant import TASK_TOKEN_HEADER
from flwr.supercore.dependencies.task import authenticate_task
from flwr.superlink.dependencies.linkstate import get_linkstate
from flwr.superlink.routers.fleet.node_auth import authenticate_node
from flwr.superlink.servicer.fleet import fleet_handlers as fleet
from flwr.superlink.servicer.runtime import runtime_handlers as runtime
from google.protobuf.message import Message as Protobuf
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from prunefl.engines.flower.access import Receive, Send, read_body, replay
from prunefl.engines.flower.ledger import FLEET, RUNTIME

Way = tuple[type[Protobuf], Callable[[Any, Any], Protobuf]]
"""What a request is, and what answers it by the SuperLink's state."""

NODES: dict[str, Way] = {
    "pull-messages": (PullMessagesRequest, lambda asked, s: fleet.pull_messages(asked, s, s.object_store)),
    "push-messages": (PushMessagesRequest, fleet.push_messages),
    "pull-object": (PullObjectRequest, fleet.pull_object),
    "push-object": (PushObjectRequest, fleet.push_object),
    "confirm-message-received": (
        ConfirmMessageReceivedRequest,
        lambda asked, state: fleet.confirm_message_received(asked, state, state.object_store),
    ),
}
TASKS: dict[str, tuple[type[Protobuf], Callable[[Any, Any, Any], Protobuf]]] = {
    "pull-messages": (PullAppMessagesRequest, runtime.pull_messages),
    "push-messages": (PushAppMessagesRequest, runtime.push_messages),
    "pull-object": (PullObjectRequest, runtime.pull_object),
    "push-object": (PushObjectRequest, runtime.push_object),
    "confirm-message-received": (ConfirmMessageReceivedRequest, runtime.confirm_message_received),
    "get-nodes": (GetNodesRequest, runtime.get_nodes),
}


def answer(scope: MutableMapping[str, Any], body: bytes) -> bytes:
    """Return what Flower's handler answers, after Flower's check of who asks; any exception if it does not."""
    request, path = Request(scope), scope["path"]
    state = get_linkstate(request)
    if path.startswith(FLEET):
        kind, handle = NODES[path.removeprefix(FLEET)]
        request.state.protobuf_request = kind.FromString(body)
        authenticate_node(request)
        return bytes(handle(request.state.protobuf_request, state).SerializeToString())
    kind, serve = TASKS[path.removeprefix(RUNTIME)]
    asked = kind.FromString(body)
    task = authenticate_task(request, request.headers.get(TASK_TOKEN_HEADER), state)
    return bytes(serve(asked, state, task).SerializeToString())


class Shortcut:
    """Right before the SuperLink, behind all of our own checks."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request of a message, and pass on all others."""
        path = scope.get("path", "")
        known = path.removeprefix(FLEET) in NODES or path.removeprefix(RUNTIME) in TASKS
        if scope["type"] != "http" or scope["method"] != "POST" or not known:
            await self.app(scope, receive, send)
            return
        body = await read_body(receive)
        try:
            answered = await run_in_threadpool(answer, scope, body)
        except Exception:
            # whoever may not, or what is none: Flower looks again, and says so
            await self.app(scope, replay(body, receive), send)
            return
        headers = [(b"content-type", b"application/protobuf"), (b"content-length", b"%d" % len(answered))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answered})
