"""The waiting room: a node's question is kept until a message for it is whole, and nobody can keep another's away."""

import asyncio

import pytest
from flwr.proto.fleet_pb2 import (
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest, PushAppMessagesResponse

from prunefl.engines.flower import waiting
from prunefl.engines.flower.ledger import FLEET, RUNTIME
from prunefl.engines.flower.waiting import WaitingRoom

PULL = FLEET + "pull-messages"


class Link:
    """A SuperLink that gives answers by path, and says when it was asked; with a waiting room before it."""

    def __init__(self) -> None:
        self.answers = {PULL: b""}
        self.status = 200
        self.asked: list[str] = []
        self.heard: list[int] = []
        self.rings = 0
        self.room = WaitingRoom(self.app, self.heard.append, self.ring)

    def ring(self) -> None:
        self.rings += 1

    async def app(self, scope, receive, send) -> None:
        await receive()
        self.asked.append(scope["path"])
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.answers.get(scope["path"], b"")})

    async def ask(self, path: str, body: bytes, gone: asyncio.Event | None = None) -> tuple[int, bytes]:
        events, sent = [{"type": "http.request", "body": body}], []

        async def receive():
            if events:
                return events.pop()
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(event):
            sent.append(event)

        await self.room({"type": "http", "path": path}, receive, send)
        return sent[0]["status"], sent[1]["body"]

    def pull(self, node: int, gone: asyncio.Event | None = None) -> "asyncio.Task[tuple[int, bytes]]":
        body = PullMessagesRequest(node=Node(node_id=node)).SerializeToString()
        return asyncio.create_task(self.ask(PULL, body, gone))

    async def push(self, nodes: list[int], missing: list[str]) -> None:
        """Announce messages "m7" for node 7 and so on, each with objects a7 and b7."""
        request = PushAppMessagesRequest(
            messages_list=[Message(metadata=Metadata(message_id=f"m{n}", dst_node_id=n)) for n in nodes],
            message_object_trees=[
                ObjectTree(object_id=f"a{n}", children=[ObjectTree(object_id=f"b{n}")]) for n in nodes
            ],
        )
        path = RUNTIME + "push-messages"
        self.answers[path] = PushAppMessagesResponse(objects_to_push=missing).SerializeToString()
        await self.ask(path, request.SerializeToString())

    async def piece(self, name: str, path: str = RUNTIME + "push-object") -> None:
        await self.ask(path, PushObjectRequest(object_id=name).SerializeToString())


def run(scenario) -> Link:
    link = Link()

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario(link)

    asyncio.run(bounded())
    return link


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_question_is_kept_until_the_last_object_of_a_message_for_this_node_is_there() -> None:
    async def scenario(link: Link) -> None:
        mine, other = link.pull(7), link.pull(8)
        await settle()
        await link.push([7, 8], ["a7", "b7", "a8", "b8"])
        for name in ("b8", "a7"):
            await link.piece(name)
            await settle()
            assert not mine.done()
        await link.piece("b7")
        # what was kept is that there was nothing: the node asks again, and has it
        assert await mine == (200, b"")
        assert not other.done()
        await link.piece("a8")
        assert await other == (200, b"")

    run(scenario)


def test_a_message_whose_objects_are_there_already_ends_the_waiting_at_once() -> None:
    async def scenario(link: Link) -> None:
        mine = link.pull(7)
        await settle()
        await link.push([7], [])
        assert await mine == (200, b"")

    run(scenario)


def test_a_message_is_given_at_once_and_so_is_a_refusal() -> None:
    async def scenario(link: Link) -> None:
        found = PullMessagesResponse(messages_list=[Message()]).SerializeToString()
        link.answers[PULL] = found
        assert await link.pull(7) == (200, found)
        link.answers[PULL], link.status = b"", 401
        assert await link.pull(7) == (401, b"")
        assert link.room._kept == {}

    run(scenario)


def test_what_comes_while_the_superlink_looks_is_not_missed() -> None:
    async def scenario(link: Link) -> None:
        inside, looking, go_on = link.room.app, asyncio.Event(), asyncio.Event()

        async def slow(scope, receive, send) -> None:
            if scope["path"] == PULL:
                await receive()
                looking.set()
                await go_on.wait()
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            else:
                await inside(scope, receive, send)

        link.room.app = slow
        mine = link.pull(7)
        await looking.wait()
        await link.push([7], [])
        go_on.set()
        assert await mine == (200, b"")

    run(scenario)


def test_nobody_can_end_or_take_over_the_waiting_of_another() -> None:
    """One asks in another's name: Flower, who checks that, refuses it, and the other waits on."""

    async def scenario(link: Link) -> None:
        mine = link.pull(7)
        await settle()
        link.status = 401
        for _ in range(10):
            assert await link.pull(7) == (401, b"")
        await settle()
        assert not mine.done()
        link.status = 200
        await link.push([7], [])
        assert await mine == (200, b"")

    run(scenario)


def test_of_one_node_one_question_is_kept() -> None:
    async def scenario(link: Link) -> None:
        asked = [link.pull(7) for _ in range(50)]
        await settle()
        assert [one.done() for one in asked] == [True] * 49 + [False]
        assert len(link.room._kept[7]) == 1
        asked[-1].cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert link.room._kept == {}

    run(scenario)


def test_who_is_gone_is_not_waited_for() -> None:
    async def scenario(link: Link) -> None:
        gone = asyncio.Event()
        mine = link.pull(7, gone)
        await settle()
        gone.set()
        await mine
        assert link.room._kept == {}

    run(scenario)


def test_time_is_up_after_a_while_and_meanwhile_the_node_counts_as_there(monkeypatch) -> None:
    monkeypatch.setattr(waiting, "HOLD_SECONDS", 0.5)
    monkeypatch.setattr(waiting, "SIGN_SECONDS", 0.05)

    async def scenario(link: Link) -> None:
        assert await link.pull(7) == (200, b"")

    link = run(scenario)
    assert set(link.heard) == {7}
    assert len(link.heard) >= 2
    assert link.asked == [PULL]


def test_the_bell_rings_when_an_answer_is_whole_and_for_none_that_was_refused() -> None:
    async def scenario(link: Link) -> None:
        request = PushMessagesRequest(
            messages_list=[Message(metadata=Metadata(message_id="r", reply_to_message_id="m"))],
            message_object_trees=[ObjectTree(object_id="r", children=[ObjectTree(object_id="s")])],
        )
        path = FLEET + "push-messages"
        link.answers[path] = PushMessagesResponse(objects_to_push=["r", "s"]).SerializeToString()
        await link.ask(path, request.SerializeToString())
        await link.piece("r", FLEET + "push-object")
        assert link.rings == 0
        link.status = 403
        await link.piece("s", FLEET + "push-object")
        assert link.rings == 0
        link.status = 200
        await link.piece("s", FLEET + "push-object")
        assert link.rings == 1
        # what nodes write wakes no node, and garbage nobody
        await link.ask(path, b"\xff" * 9)
        assert link.rings == 1

    run(scenario)


def test_messages_that_never_become_whole_are_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(waiting, "MOST_ON_THE_WAY", 3)
    way = waiting.OnTheWay()
    for number in range(5):
        assert way.announce(f"m{number}", number, [f"o{number}"]) == []
    assert [way.arrive(f"o{number}") for number in range(5)] == [[], [], [2], [3], [4]]


@pytest.mark.parametrize("path", ["/v1/fleet/activate-node", "/health", "/v1/control/start-run"])
def test_all_else_goes_through(path: str) -> None:
    async def scenario(link: Link) -> None:
        link.answers[path] = b"as it is"
        assert await link.ask(path, b"") == (200, b"as it is")

    run(scenario)
