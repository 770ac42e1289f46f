"""What each node may read and write at the SuperLink: only messages to itself, one answer to each, of bounded size.

Flower ties a request to a node's key, but not what is in it: it would take messages in anybody's name to anybody, any
number of answers, and keep what nobody reads. The ledger is asked before the SuperLink, and told what that has granted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from google.protobuf.message import DecodeError

FLEET, RUNTIME = "/v1/fleet/", "/v1/runtime/"
SUPERLINK = 1
"""Flower's number for the SuperLink itself, to which all answers go."""

PLAIN = {"activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "get-fab", "register-node"}
"""Requests that say nothing but which node asks, which Flower checks."""

FREE_BYTES = 1 << 20
"""In an answer before the run has said how large an update can be; what a node says when it joins is smaller."""

OPEN_MESSAGES, UNREAD_ANSWERS = 8, 3
"""Of one node that are remembered; a client has at most two messages at a time."""

MAX_OBJECTS = 1000
"""Records in an answer: chunks of 4 MB."""

Delete = Callable[[str, str], None]
"""Removes an answer that nobody has read: its name, and that of the message which it answers."""


class Forbidden(ValueError):
    """A request for what is another's, or for more than one's share."""


@dataclass
class Account:
    """One node: messages that it was given and their objects, what it may still write, its answers not yet read."""

    given: dict[str, set[str]] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    writable: set[str] = field(default_factory=set)
    budget: int = 0
    unread: dict[str, str] = field(default_factory=dict)


class Ledger:
    """The accounts of all nodes.

    Args:
        max_bytes: says how large an answer may be, from now on.
        delete: removes an answer from the SuperLink.
    """

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes
        self._accounts: dict[int, Account] = {}

    def check(self, path: str, body: bytes) -> None:
        """Raise Forbidden for a request of a node that it may not make."""
        name = path.removeprefix(FLEET)
        if name in PLAIN or name == "pull-messages":
            return
        checks = {
            "push-messages": self._check_answer,
            "push-object": self._check_write,
            "pull-object": self._check_read,
            "confirm-message-received": self._check_confirmation,
        }
        if name not in checks:
            raise Forbidden(f"{name[:40]!r} is nothing that nodes ask for")
        try:
            checks[name](body)
        except DecodeError:
            raise Forbidden("not a request that can be read") from None

    def note(self, path: str, body: bytes, answer: bytes, delete: Delete) -> None:
        """Enter a request that was granted, with what the SuperLink answered."""
        if path == FLEET + "pull-messages":
            self._note_given(PullMessagesRequest.FromString(body).node.node_id, answer)
        elif path == FLEET + "push-messages":
            self._note_answer(PushMessagesRequest.FromString(body), delete)
        elif path == FLEET + "push-object":
            request = PushObjectRequest.FromString(body)
            account = self._of(request.node.node_id)
            account.budget -= len(request.object_content)
            account.writable.discard(request.object_id)
        elif path == RUNTIME + "confirm-message-received":
            read = ConfirmMessageReceivedRequest.FromString(body).message_object_id
            for account in self._accounts.values():
                account.unread.pop(read, None)

    def _of(self, node: int) -> Account:
        # without keys anybody can make some up: the table must not grow with them
        if node not in self._accounts and len(self._accounts) >= 10_000:
            self._accounts.clear()
        return self._accounts.setdefault(node, Account())

    def _check_answer(self, body: bytes) -> None:
        request = PushMessagesRequest.FromString(body)
        if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
            raise Forbidden("must bring one message with its objects")
        about, node = request.messages_list[0].metadata, request.node.node_id
        if about.src_node_id != node or about.dst_node_id != SUPERLINK:
            raise Forbidden(f"node {node} writes as {about.src_node_id} to {about.dst_node_id}")
        if about.reply_to_message_id not in self._of(node).unanswered:
            raise Forbidden(f"node {node} answers what it was not asked, or has answered already")
        if sum(1 for _ in list_objects(request.message_object_trees[0])) > MAX_OBJECTS:
            raise Forbidden(f"an answer of more than {MAX_OBJECTS} objects")

    def _check_write(self, body: bytes) -> None:
        request = PushObjectRequest.FromString(body)
        account = self._of(request.node.node_id)
        if request.object_id not in account.writable:
            raise Forbidden("an object of no answer of this node")
        if len(request.object_content) > account.budget:
            raise Forbidden(f"an answer of more than {self._max_bytes()} bytes")

    def _check_read(self, body: bytes) -> None:
        request = PullObjectRequest.FromString(body)
        given = self._of(request.node.node_id).given
        if not any(request.object_id in objects for objects in given.values()):
            raise Forbidden("an object of no message to this node")

    def _check_confirmation(self, body: bytes) -> None:
        request = ConfirmMessageReceivedRequest.FromString(body)
        if request.message_object_id not in self._of(request.node.node_id).given:
            raise Forbidden("no message to this node")

    def _note_given(self, node: int, answer: bytes) -> None:
        account, response = self._of(node), PullMessagesResponse.FromString(answer)
        for message, tree in zip(response.messages_list, response.message_object_trees, strict=True):
            name = message.metadata.message_id
            account.given[name] = set(list_objects(tree))
            account.unanswered.add(name)
        for old in list(account.given)[:-OPEN_MESSAGES]:
            del account.given[old]
            account.unanswered.discard(old)

    def _note_answer(self, request: PushMessagesRequest, delete: Delete) -> None:
        account, about = self._of(request.node.node_id), request.messages_list[0].metadata
        account.unanswered.discard(about.reply_to_message_id)
        account.writable = set(list_objects(request.message_object_trees[0]))
        account.budget = self._max_bytes()
        account.unread[about.message_id] = about.reply_to_message_id
        for old in list(account.unread)[:-UNREAD_ANSWERS]:
            delete(old, account.unread.pop(old))


def list_objects(tree: Any) -> Iterator[str]:
    """Yield the names of all objects of a message; protobuf itself limits how deep a tree can be."""
    yield tree.object_id
    for child in tree.children:
        yield from list_objects(child)
