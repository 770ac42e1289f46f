"""What a node may ask of the SuperLink, request by request, as Flower's own client makes them."""

import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    Message,
    Metadata,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node

from prunefl.engines.flower.ledger import UNREAD_ANSWERS, Forbidden, Ledger

A, B = Node(node_id=10), Node(node_id=11)


class Link:
    """A SuperLink that grants whatever the ledger lets through."""

    def __init__(self, max_bytes=100):
        self.ledger, self.deleted = Ledger(lambda: max_bytes), []

    def ask(self, name, request, answer=b""):
        path = name if name.startswith("/") else f"/v1/fleet/{name}"
        if path.startswith("/v1/fleet/"):
            self.ledger.check(path, request.SerializeToString())
        self.ledger.note(path, request.SerializeToString(), answer, lambda *names: self.deleted.append(names))

    def give(self, node, name):
        """Let a node pull a message with one chunk."""
        tree = ObjectTree(object_id=name, children=[ObjectTree(object_id=f"{name}-chunk")])
        message = Message(metadata=Metadata(message_id=name))
        answer = PullMessagesResponse(messages_list=[message], message_object_trees=[tree])
        self.ask("pull-messages", PullMessagesRequest(node=node), answer.SerializeToString())

    def answer(self, node, to, name="answer", source=None, target=1):
        about = Metadata(message_id=name, reply_to_message_id=to, dst_node_id=target)
        about.src_node_id = source or node.node_id
        tree = ObjectTree(object_id=name, children=[ObjectTree(object_id=f"{name}-chunk")])
        request = PushMessagesRequest(
            node=node, messages_list=[Message(metadata=about)], message_object_trees=[tree]
        )
        self.ask("push-messages", request)


@pytest.fixture
def link():
    return Link()


def test_a_node_answers_what_it_was_asked_once(link):
    link.give(A, "m1")
    link.answer(A, "m1")
    with pytest.raises(Forbidden, match="has answered already"):
        link.answer(A, "m1", "again")


@pytest.mark.parametrize(
    ("to", "source", "target", "rule"),
    [
        ("m1", 11, 1, "writes as 11"),
        ("m1", 1, 11, "writes as 1 to 11"),
        ("m1", None, 11, "to 11"),
        ("", None, 1, "was not asked"),
        ("m2", None, 1, "was not asked"),
    ],
)
def test_a_node_writes_as_itself_to_the_server_in_answer_to_what_it_was_sent(link, to, source, target, rule):
    link.give(A, "m1")
    link.give(B, "m2")
    with pytest.raises(Forbidden, match=rule):
        link.answer(A, to, source=source, target=target)


def test_a_node_reads_and_confirms_its_own_messages_only(link):
    link.give(A, "m1")
    link.give(B, "m2")
    link.ask("pull-object", PullObjectRequest(node=A, object_id="m1-chunk"))
    with pytest.raises(Forbidden):
        link.ask("pull-object", PullObjectRequest(node=A, object_id="m2-chunk"))
    link.ask("confirm-message-received", ConfirmMessageReceivedRequest(node=A, message_object_id="m1"))
    with pytest.raises(Forbidden):
        link.ask("confirm-message-received", ConfirmMessageReceivedRequest(node=A, message_object_id="m2"))


def test_an_answer_has_its_own_objects_and_a_size(link):
    link.give(A, "m1")
    link.answer(A, "m1")
    push = PushObjectRequest(node=A, object_id="answer-chunk", object_content=b"x" * 60)
    link.ask("push-object", push)
    with pytest.raises(Forbidden, match="of no answer"):
        link.ask("push-object", push)
    with pytest.raises(Forbidden, match="more than 100 bytes"):
        link.ask("push-object", PushObjectRequest(node=A, object_id="answer", object_content=b"x" * 41))
    with pytest.raises(Forbidden, match="of no answer"):
        link.ask("push-object", PushObjectRequest(node=B, object_id="answer", object_content=b"x"))


def test_answers_that_nobody_reads_are_deleted_and_read_ones_are_not_counted(link):
    for number in range(UNREAD_ANSWERS + 2):
        link.give(A, f"m{number}")
        link.answer(A, f"m{number}", f"a{number}")
        if number == 0:
            read = ConfirmMessageReceivedRequest(message_object_id="a0")
            link.ask("/v1/runtime/confirm-message-received", read)
    assert link.deleted == [("a1", "m1")]


@pytest.mark.parametrize("body", [b"", b"garbage", b"\xff" * 50])
@pytest.mark.parametrize("name", ["push-messages", "push-object", "pull-object", "confirm-message-received"])
def test_garbage_is_forbidden(link, name, body):
    with pytest.raises(Forbidden):
        link.ledger.check(f"/v1/fleet/{name}", body)


def test_nothing_else_is_asked_for(link):
    with pytest.raises(Forbidden, match="nothing that nodes ask for"):
        link.ledger.check("/v1/fleet/unregister-node", b"")
