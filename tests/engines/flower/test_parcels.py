"""Parcels: both ends together over a SuperLink of one message, and each end with a stranger at the other."""

from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from fake_link import NODE, Client, Link, answer_to, contents_of, write
from flwr.app.message.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import PullObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st

from prunefl.engines.flower import parcel
from prunefl.engines.flower.access import MAX_BODY
from prunefl.engines.flower.chunks import CHUNK
from prunefl.engines.flower.ledger import FLEET
from prunefl.engines.flower.parcel import HEADER, MOST, Parcels, pack, unpack
from prunefl.engines.flower.server_app import send_in_parcels


@pytest.fixture(autouse=True)
def server(monkeypatch) -> None:
    """Be a server's process, which may write messages."""
    for name, number in {"_task_id": 1, "_run_id": 2, "_node_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, number)


@pytest.mark.parametrize("size", [0, 5, CHUNK - 1000, CHUNK, 3 * CHUNK])
def test_all_objects_arrive_whatever_their_size(size: int, rng: np.random.Generator, monkeypatch) -> None:
    link = Link(write(rng.bytes(size)))
    client = Client(link, Parcels())
    assert client.receive() == contents_of(link.message)
    assert link.confirmed == [link.message.object_id]
    reply = answer_to(link.message, rng.bytes(size), monkeypatch)
    client.send(reply)
    assert link.stored == contents_of(reply)


def test_a_message_and_its_answer_take_two_requests(monkeypatch) -> None:
    link = Link(write(b"order"))
    client = Client(link, Parcels())
    client.receive()
    assert client.send(answer_to(link.message, b"answer", monkeypatch)) == []
    assert link.requests == ["pull-messages", "push-messages"]


def test_what_does_not_fit_goes_alone(rng: np.random.Generator, monkeypatch) -> None:
    link = Link(write(rng.bytes(2 * CHUNK)))
    client = Client(link, Parcels())
    client.receive()
    assert link.requests.count("pull-object") in (1, 2)
    assert link.requests.count("confirm-message-received") == 1
    alone = client.send(answer_to(link.message, rng.bytes(2 * CHUNK), monkeypatch))
    assert link.requests.count("push-object") == len(alone) > 0


def test_a_superlink_that_knows_no_parcels_is_spoken_to_as_flower_does(monkeypatch) -> None:
    link = Link(write(b"order"))
    monkeypatch.setattr("prunefl.engines.flower.access.is_parcel", lambda scope: False)
    client = Client(link, Parcels())
    assert client.receive() == contents_of(link.message)
    assert len(client.send(answer_to(link.message, b"answer", monkeypatch))) == 3
    assert len(link.requests) == 1 + 3 + 1 + 1 + 3


def test_a_server_that_comes_back_without_parcels_is_sent_none(monkeypatch) -> None:
    parcels = Parcels()
    Client(Link(write(b"order")), parcels).receive()
    monkeypatch.setattr("prunefl.engines.flower.access.is_parcel", lambda scope: False)
    link = Link(write(b"another"))
    client = Client(link, parcels)
    assert client.receive() == contents_of(link.message)
    assert len(client.send(answer_to(link.message, b"answer", monkeypatch))) == 3


def test_who_knows_no_parcels_is_sent_none() -> None:
    link = Link(write(b"order"))
    asked = PullMessagesRequest(node=Node(node_id=NODE)).SerializeToString()
    response = link.serve(httpx.Request("POST", f"http://there{FLEET}pull-messages", content=asked))
    assert HEADER not in response.headers
    assert len(PullMessagesResponse.FromString(response.content).messages_list) == 1
    assert link.confirmed == []


def test_an_object_that_is_not_there_yet_is_left_for_later() -> None:
    link = Link(write(b"order"))
    late = {name: link.objects.pop(name) for name in list(link.objects)[:1]}
    client = Client(link, Parcels())
    client.ask("PullMessages", PullMessagesRequest(node=Node(node_id=NODE)))
    assert link.confirmed == []
    link.objects.update(late)
    for name, content in contents_of(link.message).items():
        asked = PullObjectRequest(node=Node(node_id=NODE), run_id=2, object_id=name)
        assert client.ask("PullObject", asked).object_content == content


def test_an_object_of_two_messages_is_there_for_both() -> None:
    parcels = Parcels()
    answer = pack([b"", b"a b", b"same", b"content"])
    response = httpx.Response(
        200, headers={HEADER: "1"}, content=answer, request=httpx.Request("POST", "http://x")
    )
    for _ in range(2):
        parcels._open(response)
    assert [parcels._take("same") for _ in range(3)] == [b"content", b"content", None]
    assert [parcels._is_confirmed(name) for name in "aab"] == [True, False, True]


def test_what_nobody_asks_for_is_not_kept_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(parcel, "KEPT", 10)
    monkeypatch.setattr(parcel, "CONFIRMED", 2)
    parcels = Parcels()
    for number in range(5):
        body = pack([b"", b"m%d" % number, b"o%d" % number, b"12345"])
        request = httpx.Request("POST", "http://x")
        parcels._open(httpx.Response(200, headers={HEADER: "1"}, content=body, request=request))
    assert [parcels._take(f"o{number}") for number in range(5)] == [None, None, None, b"12345", b"12345"]
    assert [parcels._is_confirmed(f"m{number}") for number in range(5)] == [False, False, False, True, True]
    assert parcels._bytes == 0


def bring(link: Link, parts: list[bytes] | None, body: bytes = b"") -> httpx.Response:
    content = body if parts is None else pack(parts)
    return link.serve(
        httpx.Request("POST", f"http://there{FLEET}push-messages", content=content, headers={HEADER: "1"})
    )


@pytest.mark.parametrize(
    "body", [b"", b"\1", b"\xff\xff\xff\xffabc", pack([b"\xff"]), pack([b"", b"\xff\xfe", b""])]
)
def test_a_body_that_is_no_parcel_is_refused(body: bytes) -> None:
    link = Link(write(b"order"))
    assert bring(link, None, body).status_code == 400
    assert link.stored == {}


def test_every_request_of_a_parcel_is_held_to_the_ledger(monkeypatch) -> None:
    """An answer that was not asked for is refused, and with it whatever came along; so is an object of none."""
    link = Link(write(b"order"))
    reply = answer_to(link.message, b"answer", monkeypatch)
    bare = message_to_proto(remove_content_from_message(reply))
    about = PushMessagesRequest(
        node=Node(node_id=NODE), messages_list=[bare], message_object_trees=[get_object_tree(reply)]
    )
    objects = [part for name, content in contents_of(reply).items() for part in (name.encode(), content)]
    assert bring(link, [about.SerializeToString(), *objects]).status_code == 403
    assert link.stored == {}
    Client(link, Parcels()).receive()
    granted = bring(link, [about.SerializeToString(), b"stranger", b"content", *objects])
    assert granted.status_code == 200
    assert set(link.stored) == set(contents_of(reply))
    # and a second time it has been answered
    assert bring(link, [about.SerializeToString(), *objects]).status_code == 403


def test_an_answer_in_a_parcel_is_no_larger_than_allowed(rng: np.random.Generator, monkeypatch) -> None:
    link = Link(write(b"order"))
    link.access._ledger._max_bytes = lambda: 2000
    client = Client(link, Parcels())
    client.receive()
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        client.send(answer_to(link.message, rng.bytes(5000), monkeypatch))
    assert sum(map(len, link.stored.values())) <= 2000


@given(st.lists(st.binary(max_size=30), max_size=8), st.data())
def test_parts_come_out_as_they_went_in_and_never_from_a_part_of_them(parts: list[bytes], data) -> None:
    body = pack(parts)
    assert unpack(body) == parts
    cut = data.draw(st.integers(0, len(body)))
    try:
        assert unpack(body[:cut]) == parts[: len(unpack(body[:cut]))]
    except ValueError:
        assert cut < len(body)


def test_a_parcel_fits_into_a_request() -> None:
    assert MOST + (1 << 20) < MAX_BODY


def test_a_simulations_grid_is_left_alone() -> None:
    grid = SimpleNamespace(push_messages=len)
    send_in_parcels(grid)
    assert grid.push_messages is len
