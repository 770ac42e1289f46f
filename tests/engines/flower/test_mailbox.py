"""The mailbox over a grid that hangs, fails and lies."""

import threading
import time
from concurrent.futures import wait
from types import SimpleNamespace

import httpx
import pytest

from prunefl.engines.flower import mailbox as module
from prunefl.engines.flower.chunks import to_records
from prunefl.engines.flower.mailbox import Mailbox


def message(name, content=b"", error=""):
    """Return what Flower's Message looks like to a reader."""
    return SimpleNamespace(
        metadata=SimpleNamespace(reply_to_message_id=name),
        has_error=lambda: bool(error),
        error=SimpleNamespace(reason=error, code=7),
        content=to_records(content),
    )


class Grid:
    """Answers as told by message name: bytes, an exception, or an event to hang on."""

    def __init__(self, answers):
        self.answers = answers

    def push_messages(self, messages):
        return [f"m{number}" for number, _ in enumerate(messages)]

    def pull_messages(self, names):
        found = []
        for name in names:
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, threading.Event):
                answer.wait(20)
            elif answer is not None:
                found.append(answer)
        return found


def collected(mailbox, count, seconds=10.0):
    """Return the answers by message, once there are so many."""
    answers, limit = {}, time.monotonic() + seconds
    while len(answers) < count and time.monotonic() < limit:
        answers |= {answer.message: answer for answer in mailbox.fetch()}
        time.sleep(0.02)
    return answers


@pytest.fixture
def send(monkeypatch):
    # Flower makes messages only inside of a running app.
    monkeypatch.setattr(module, "Message", lambda *arguments, **options: (arguments, options))

    def send(mailbox, count):
        return mailbox.send(dict.fromkeys(range(count), b"envelope"), 60.0, "1")

    return send


def test_answers_come_back_under_their_messages_names(send):
    with Mailbox(Grid({f"m{n}": message(f"m{n}", b"%d" % n) for n in range(5)}), 100) as mailbox:
        assert send(mailbox, 5) == {n: f"m{n}" for n in range(5)}
        answers = collected(mailbox, 5)
        assert {name: answer.content for name, answer in answers.items()} == {
            f"m{n}": b"%d" % n for n in range(5)
        }
        assert mailbox.fetch() == []


def test_one_that_fails_takes_no_other_with_it(send, caplog):
    answers = {f"m{n}": message(f"m{n}", b"fine") for n in range(4)}
    answers["m1"] = KeyError("expired")
    answers["m2"] = message("m2", error="the ClientApp crashed\nwith a long story")
    answers["m3"] = message("m3", b"x" * 101)
    with Mailbox(Grid(answers), 100) as mailbox:
        send(mailbox, 4)
        found = collected(mailbox, 4)
    assert found["m0"].content == b"fine"
    assert found["m1"].error == "Flower cannot read its answer: KeyError: 'expired'"
    assert caplog.records[0].exc_info
    assert found["m2"].error == "the ClientApp crashed with a long story"
    assert "100 bytes allowed" in found["m3"].error


def test_a_superlink_that_does_not_answer_is_no_clients_fault(send, caplog):
    grid = Grid({"m0": httpx.ConnectError("refused")})
    with Mailbox(grid, 100) as mailbox:
        send(mailbox, 1)
        assert not collected(mailbox, 1, seconds=0.3)
        grid.answers = {"m0": message("m0", b"fine")}
        assert collected(mailbox, 1)["m0"].content == b"fine"
    assert "answers cannot be fetched now: refused" in caplog.text


def test_a_bug_of_our_own_is_raised_and_not_taken_for_a_bad_answer(send, monkeypatch):
    monkeypatch.setattr(module, "from_records", lambda *_: {}["bug"])
    with Mailbox(Grid({"m0": message("m0")}), 100) as mailbox:
        send(mailbox, 1)
        with pytest.raises(KeyError, match="bug"):
            collected(mailbox, 1)


def test_one_that_hangs_keeps_back_the_others_for_a_moment_only(send, monkeypatch):
    monkeypatch.setattr(module, "STALL", 0.2)
    hanging = threading.Event()
    late = {f"m{n}": message(f"m{n}", b"late") for n in range(1, 4)}
    grid = Grid({"m0": hanging})
    with Mailbox(grid, 100) as mailbox:
        send(mailbox, 4)
        mailbox.fetch()
        grid.answers = {**late, "m0": hanging}
        assert sorted(collected(mailbox, 3)) == ["m1", "m2", "m3"]
        hanging.set()


def test_an_answer_on_its_way_is_not_given_up_for_a_second_look(send, monkeypatch):
    monkeypatch.setattr(module, "STALL", 0.1)
    arrived, looks = threading.Event(), []

    class Slow(Grid):
        def pull_messages(self, names):
            looks.append(names)
            if len(looks) == 1:
                arrived.wait(20)
                return [message("m0", b"content")]
            return [message("m0", error="not in the database: it has been delivered")]

    with Mailbox(Slow({}), 100) as mailbox:
        send(mailbox, 1)
        limit = time.monotonic() + 10
        while len(looks) < 4 and time.monotonic() < limit:
            assert mailbox.fetch() == []
            time.sleep(0.02)
        arrived.set()
        assert collected(mailbox, 1)["m0"].content == b"content"


def test_what_is_forgotten_is_not_delivered(send):
    with Mailbox(Grid({"m0": message("m0"), "m1": message("m1")}), 100) as mailbox:
        send(mailbox, 2)
        mailbox.forget("m0")
        assert sorted(collected(mailbox, 1)) == ["m1"]
        time.sleep(0.1)
        assert mailbox.fetch() == []


def test_who_waits_is_woken_by_an_answer_and_not_by_a_look_in_vain(send):
    grid = Grid({})
    with Mailbox(grid, 100) as mailbox:
        send(mailbox, 1)
        mailbox.fetch()
        wait(mailbox._jobs, 20)
        assert not mailbox._news.is_set()
        grid.answers = {"m0": message("m0", b"fine")}
        assert mailbox.fetch() == []
        mailbox.wait(20)
        assert [answer.content for answer in mailbox.fetch()] == [b"fine"]


def test_where_a_bell_rings_nobody_looks_before_it_does(send, monkeypatch):
    monkeypatch.setattr(module, "UNRUNG_SECONDS", 1000.0)
    looks = []

    class Counted(Grid):
        def pull_messages(self, names):
            looks.append(names)
            return super().pull_messages(names)

    grid = Counted({})
    with Mailbox(grid, 100) as mailbox:
        mailbox.ring()
        mailbox.wait(20)
        send(mailbox, 1)
        for _ in range(20):
            mailbox.fetch()
            mailbox.wait(0.01)
        assert len(looks) == 1
        grid.answers = {"m0": message("m0", b"fine")}
        assert mailbox.fetch() == []
        mailbox.ring()
        assert collected(mailbox, 1)["m0"].content == b"fine"
        assert len(looks) == 2


def test_a_ring_while_a_look_is_under_way_is_not_lost(send, monkeypatch):
    """The look was too early for the answer that the bell rang for."""
    monkeypatch.setattr(module, "UNRUNG_SECONDS", 1000.0)
    early, go_on = threading.Event(), threading.Event()

    class Slow(Grid):
        def pull_messages(self, names):
            if not early.is_set():
                early.set()
                go_on.wait(20)
                return []
            return super().pull_messages(names)

    with Mailbox(Slow({"m0": message("m0", b"fine")}), 100) as mailbox:
        mailbox.ring()
        mailbox.wait(20)
        send(mailbox, 1)
        mailbox.fetch()
        assert early.wait(20)
        mailbox.ring()
        mailbox.wait(20)
        assert mailbox.fetch() == []
        go_on.set()
        mailbox.wait(20)
        mailbox.fetch()
        mailbox.wait(20)
        assert [answer.content for answer in mailbox.fetch()] == [b"fine"]
