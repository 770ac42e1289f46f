"""A client's node: what the server's message says reaches the worker, and the worker's answer the server."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_mailbox import Clock
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from prunefl.engines.flower import node
from prunefl.engines.flower.chunks import CHUNK, from_records, to_records
from prunefl.engines.flower.parcel import Parcels


@pytest.fixture(autouse=True)
def server(monkeypatch) -> None:
    """Be a server's process, which may write messages."""
    for name, number in {"_task_id": 1, "_run_id": 2, "_node_id": 3}.items():
        monkeypatch.setattr(TaskIdentity, name, number)


class Link:
    """A SuperLink with one message for the node; what it is sent back is put together again as a server does."""

    def __init__(self, data: bytes) -> None:
        self.message = Message(to_records(data), 7, "train")
        self.message.metadata.__dict__["_message_id"] = self.message.object_id
        self.waiting = True
        self.stored = {name: each.deflate() for name, each in get_all_nested_objects(self.message).items()}
        self.confirmed: list[str] = []
        self.sent: list[Message] = []
        self.pushed: dict[str, bytes] = {}

    @property
    def line(self) -> tuple:
        """What Flower's connection gives, in its order."""
        return (7, self.receive, self.send, None, None, self.pull, self.push, self.confirm)

    def receive(self):
        if not self.waiting:
            return None
        self.waiting = False
        bare = SimpleNamespace(metadata=self.message.metadata)
        return bare, get_object_tree(self.message)

    def pull(self, run: int, name: str) -> bytes:
        return self.stored[name]

    def confirm(self, run: int, name: str) -> None:
        self.confirmed.append(name)

    def send(self, reply: Message, tree, seconds: float) -> tuple[set[str], str]:
        assert seconds >= 0
        self.sent.append(reply)
        self.root = tree.object_id
        return set(get_all_nested_objects(reply)), "session"

    def push(self, run: int, session: str, name: str, content: bytes) -> None:
        assert session == "session"
        self.pushed[name] = content

    def reply(self) -> Message:
        found = inflate_object_from_contents(self.root, self.pushed)
        assert isinstance(found, Message)
        return found


@pytest.mark.parametrize("size", [0, 5, CHUNK, 2 * CHUNK + 3])
def test_bytes_reach_the_worker_and_its_answer_the_server(size: int, rng: np.random.Generator) -> None:
    asked, answered = rng.bytes(size), rng.bytes(size + 1)
    link, got = Link(asked), []

    def answer(data: bytes) -> bytes:
        got.append(data)
        return answered

    assert node.relay(link.line, answer, Parcels())
    assert got == [asked]
    assert link.confirmed == [link.message.object_id]
    reply = link.reply()
    assert from_records(reply.content, 1 << 30) == answered
    assert reply.metadata.reply_to_message_id == link.message.object_id
    assert (reply.metadata.src_node_id, reply.metadata.dst_node_id) == (7, 3)
    assert not node.relay(link.line, answer, Parcels())


def test_the_server_hears_why_there_is_no_answer() -> None:
    link = Link(b"question")

    def answer(data: bytes) -> bytes:
        raise ConnectionError("the line was cut\nafter 3 bytes")

    assert node.relay(link.line, answer, Parcels())
    assert link.reply().error.reason == "ConnectionError: the line was cut after 3 bytes"


def test_the_server_hears_nothing_of_a_clients_folders() -> None:
    def gone(data: bytes) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", "/home/anna/clinic/worker.sock")

    link = Link(b"order")
    assert node.relay(link.line, gone, Parcels())
    assert link.reply().error.reason == "FileNotFoundError: No such file or directory"


def test_a_message_that_cannot_be_fetched_ends_nothing(monkeypatch) -> None:
    link = Link(b"question")

    def pull(run: int, name: str) -> bytes:
        raise RuntimeError("the run is over")

    monkeypatch.setattr(link, "pull", pull)
    assert node.relay(link.line, lambda data: data, Parcels())
    assert link.sent == []


def test_who_waits_long_looks_less_often_and_never_more_than_a_twentieth_late(monkeypatch) -> None:
    """At a SuperLink that says at once that there is nothing."""
    clock = Clock()
    monkeypatch.setattr(node, "time", clock)
    pace, looks = node.Pace(), []
    begun = clock.now
    for _ in range(node.AT_ONCE):
        pace.wait(False, 0.0)
    assert clock.now == begun
    while clock.now - begun < 300:
        before = clock.now
        pace.wait(False, 0.0)
        looks.append((before - begun, clock.now - before))
    assert all(0.2 <= slept <= max(0.2, 0.05 * waited) + 1e-9 for waited, slept in looks)
    assert looks[-1][1] == pytest.approx(3.0)
    pace.wait(True, 0.0)
    before = clock.now
    for _ in range(node.AT_ONCE + 1):
        pace.wait(False, 0.0)
    assert clock.now - before == pytest.approx(0.2)


def test_a_superlink_that_keeps_questions_is_asked_again_at_once(monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(node, "time", clock)
    pace, begun = node.Pace(), clock.now
    # kept to the end, or broken off by a message that comes with the next look
    for had_message, seconds in [(False, 20.0)] * 50 + [(False, 0.01), (True, 0.3)] * 50:
        pace.wait(had_message, seconds)
    assert clock.now == begun
