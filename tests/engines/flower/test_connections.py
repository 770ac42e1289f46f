"""Strangers' connections, with real sockets: few, short, and not at the expense of those who have shown a key."""

import contextlib
import gc
import socket
import weakref

import pytest

from prunefl.engines.flower import connections as module
from prunefl.engines.flower.connections import Connections, listen
from prunefl.engines.flower.join import free_port


@pytest.fixture
def server():
    port = free_port()
    with listen("127.0.0.1", port, Connections()) as server:
        server.listen(512)
        server.setblocking(True)
        yield server


def connect(server, count):
    """Return so many connections, each as the two ends have it."""
    pairs = []
    for _ in range(count):
        there = socket.create_connection(server.getsockname())
        here, address = server.accept()
        pairs.append((there, here, address))
    return pairs


def close(pairs):
    for there, here, _ in pairs:
        there.close()
        here.close()


def count_open(pairs):
    """Return how many connections have not been ended."""
    alive = 0
    for _, here, _ in pairs:
        here.setblocking(False)
        try:
            alive += here.recv(1) != b""
        except BlockingIOError:
            alive += 1
    return alive


def accept_all(server):
    """Return what an event loop accepts in one go."""
    taken = []
    with contextlib.suppress(BlockingIOError):
        while True:
            taken.append(server.accept())
    return taken


def test_after_a_few_new_ones_those_who_are_there_have_their_turn(server, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 3)
    waiting = [socket.create_connection(server.getsockname()) for _ in range(7)]
    server.setblocking(False)
    taken = []
    for count in (3, 6, 7):
        taken += accept_all(server)
        assert len(taken) == count
    for line in [*waiting, *(line for line, _ in taken)]:
        line.close()


def test_strangers_are_few_at_a_time(server, monkeypatch):
    monkeypatch.setattr(module, "STRANGERS", 5)
    pairs = connect(server, 12)
    assert count_open(pairs) == 5
    close(pairs)


def test_what_ended_connections_leave_in_cycles_is_swept_up(server, monkeypatch):
    monkeypatch.setattr(module, "STRANGERS", 1)
    monkeypatch.setattr(module, "SWEEP", 3)
    gc.disable()
    try:
        knot = Connections()
        knot.itself = knot
        left = weakref.ref(knot)
        del knot
        pairs = connect(server, 3)
        assert left() is not None
        pairs += connect(server, 1)
        assert left() is None
    finally:
        gc.enable()
    close(pairs)


def test_who_has_shown_a_key_is_not_pushed_out(server, monkeypatch):
    monkeypatch.setattr(module, "STRANGERS", 3)
    friends = connect(server, 3)
    for _, _, address in friends:
        server.connections.trust(address)
    strangers = connect(server, 20)
    assert count_open(friends) == 3
    assert count_open(strangers) < 20
    close(friends + strangers)


def test_strangers_have_seconds_and_friends_have_time(server, monkeypatch):
    friend, stranger = connect(server, 2)
    server.connections.trust(friend[2])
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.0)
    server.connections.close_overdue()
    assert (count_open([friend]), count_open([stranger])) == (1, 0)
    close([friend, stranger])


def test_connections_that_are_gone_are_forgotten(server):
    close(connect(server, 5))
    server.connections.close_overdue()
    assert server.connections._open == {}


def test_an_answer_is_sent_as_it_is_written(server):
    """Without this the body of every answer waits for the receipt of its head, 40 ms."""
    pairs = connect(server, 1)
    assert pairs[0][1].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    close(pairs)
