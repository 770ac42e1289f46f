"""Strangers' connections, with real sockets: few, short, and not at the expense of those who have shown a key."""

import socket

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


def test_strangers_are_few_at_a_time(server, monkeypatch):
    monkeypatch.setattr(module, "STRANGERS", 5)
    pairs = connect(server, 12)
    # by lot: one that was ended already may be drawn again before the web server lets go of it
    assert 5 <= count_open(pairs) <= 12 - 4
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
