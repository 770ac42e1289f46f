"""A round with real troubles, on a post office that we can make late, lose and lie."""

from dataclasses import dataclass, field

import pytest

from prunefl.engines.flower import courier as module
from prunefl.engines.flower.courier import Courier, Terms
from prunefl.engines.flower.letters import Letter, seal, unseal
from prunefl.engines.flower.orders import reply_letter
from prunefl.engines.flower.post import Answer
from prunefl.engines.flower.roll import Roll
from prunefl.rounds.messages import InitialPlan, Order, Reply

GOOD, SILENT, GARBAGE, NAN, WHOLE = "good", "silent", "garbage", "nan", "whole"
TROUBLE, RUDE = "trouble", "rude"


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@dataclass
class FakePost:
    """Nodes 10, 11, ... that behave as told; an answer comes `delay` seconds after its letter."""

    clock: Clock
    manners: dict[int, str]
    since: dict[int, str]
    delay: dict[int, float] = field(default_factory=dict)
    sent: list[tuple[int, Letter]] = field(default_factory=list)
    due: list[tuple[float, Answer]] = field(default_factory=list)
    lives: list[float] = field(default_factory=list)

    def online(self):
        return dict(self.since)

    def send(self, letters, seconds, group):
        names = {}
        for node, sealed in letters.items():
            letter = unseal(sealed)
            names[node] = f"m{len(self.sent)}"
            self.sent.append((node, letter))
            self.lives.append(seconds)
            answer = self.answer(node, letter)
            if answer is not None:
                self.due.append((self.clock.now + self.delay.get(node, 0.1), Answer(names[node], *answer)))
        return names

    def answer(self, node, letter):
        client = node - 10
        if letter.kind == "hello":
            return (seal(Letter("here", {"client": client, "num_samples": 5 + client})),)
        if letter.kind == "farewell":
            return (seal(letter),)
        manner = self.manners[node]
        if manner == WHOLE and letter.values["config"]:
            manner = GOOD
        reply = Reply(client, letter.values["round"], 5, 0.5, b"model" + letter.parts[0])
        letters = {
            GOOD: (seal(reply_letter(reply)),),
            GARBAGE: (b"garbage",),
            NAN: (seal(reply_letter(Reply(client, reply.round, 5, float("nan"), b"model"))),),
            WHOLE: (seal(Letter("whole")),),
            TROUBLE: (b"", "the ClientApp crashed"),
            RUDE: (seal(Letter("trouble", {"what": "\x1b[2J\nprunefl: round 99 " + "x" * 9999})),),
        }
        return letters.get(manner)

    def fetch(self):
        ready = [answer for when, answer in self.due if when <= self.clock.now]
        self.due = [(when, answer) for when, answer in self.due if when > self.clock.now]
        return ready

    def forget(self, name):
        self.due = [(when, answer) for when, answer in self.due if answer.message != name]

    def orders_to(self, node):
        return [letter for number, letter in self.sent if number == node and letter.kind == "order"]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr("prunefl.engines.flower.roll.time", clock)
    return clock


def federation(clock, *manners, quorum=0.5, deadline=10.0):
    nodes = range(10, 10 + len(manners))
    post = FakePost(clock, dict(zip(nodes, manners, strict=True)), dict.fromkeys(nodes, "monday"))
    words = []
    keys = {node: node - 10 for node in nodes}
    roll = Roll(post, len(manners), keys, seal(Letter("hello")), deadline, words.append)
    terms = Terms(quorum, deadline, "run", "config")
    courier = Courier(
        post, roll, terms, lambda state, order: Order(order.round, 0.1, b"!"), words.append, lambda: None
    )
    return courier, post, roll, words


def orders(count, number=1):
    return {client: Order(number, 0.1, b"") for client in range(count)}


def carried(courier, count, number=1):
    return sorted(reply.client for reply in courier.carry(None, orders(count, number)))


def test_all_good_replies_come_back_without_waiting_for_the_deadline(clock):
    courier, _post, roll, _ = federation(clock, GOOD, GOOD, GOOD)
    courier.muster()
    before = clock.now
    assert carried(courier, 3) == [0, 1, 2]
    assert clock.now - before < 2
    assert [member.num_samples for member in roll.members.values()] == [5, 6, 7]


@pytest.mark.parametrize("manner", [SILENT, GARBAGE, NAN, TROUBLE])
def test_a_bad_client_costs_its_own_update_and_is_counted(clock, manner):
    courier, post, roll, words = federation(clock, GOOD, manner, GOOD)
    courier.muster()
    assert carried(courier, 3) == [0, 2]
    assert [member.refusals for member in roll.members.values()] == [0, 1, 0]
    assert len(post.orders_to(11)) == 1
    assert any("client 1: update left out" in line for line in words)


def test_a_silent_client_is_waited_for_once_and_not_again(clock):
    courier, post, _roll, _ = federation(clock, GOOD, SILENT, GOOD, deadline=10.0)
    courier.muster()
    start = clock.now
    carried(courier, 3, 1)
    first, start = clock.now - start, clock.now
    carried(courier, 3, 2)
    assert first > 10
    assert clock.now - start < 2
    assert len(post.orders_to(11)) == 1


def test_a_late_answer_is_left_out_and_its_client_takes_part_again(clock):
    courier, post, roll, words = federation(clock, GOOD, GOOD, GOOD, deadline=10.0)
    courier.muster()
    post.delay[11] = 10.5
    assert carried(courier, 3, 1) == [0, 2]
    post.delay[11] = 0.1
    clock.sleep(5)
    carried(courier, 3, 2)
    assert any("round 1 came late" in line for line in words)
    assert carried(courier, 3, 3) == [0, 1, 2]
    assert roll.members[1].refusals == 2


def test_a_client_that_was_killed_and_came_back_is_asked_again_in_the_same_round(clock):
    courier, post, _roll, _ = federation(clock, GOOD, SILENT, GOOD, deadline=60.0)
    courier.muster()
    sleep = clock.sleep

    def sleep_and_restart(seconds):
        sleep(seconds)
        if clock.now > 1010 and post.manners[11] == SILENT:
            post.manners[11], post.since[11] = GOOD, "tuesday"

    clock.sleep = sleep_and_restart
    assert carried(courier, 3) == [0, 1, 2]
    assert clock.now < 1020
    assert len(post.orders_to(11)) == 2


def test_a_client_with_other_masks_gets_the_whole_state_in_the_same_round(clock):
    courier, _post, roll, _ = federation(clock, GOOD, WHOLE)
    courier.muster()
    replies = courier.carry(None, orders(2))
    assert {reply.client: reply.model for reply in replies} == {0: b"model", 1: b"model!"}
    assert roll.members[1].refusals == 0


def test_without_a_quorum_the_server_waits_says_so_and_asks_again(clock):
    courier, post, _roll, words = federation(clock, GOOD, GARBAGE, TROUBLE, quorum=0.6, deadline=10.0)
    courier.muster()
    sleep = clock.sleep

    def mend(seconds):
        sleep(seconds)
        if clock.now > 1035:
            post.manners[12] = GOOD

    clock.sleep = mend
    assert carried(courier, 3) == [0, 2]
    assert clock.now > 1035
    assert any(
        "1 of 3 updates, 2 are needed (server.quorum=0.6); waiting for client 1, 2" in line for line in words
    )


def test_muster_waits_for_all_and_after_the_deadline_for_a_quorum(clock):
    courier, post, _roll, _words = federation(clock, GOOD, GOOD, GOOD, deadline=10.0)
    away = post.since.pop(12)
    courier.muster()
    assert clock.now > 1010
    post.since[12] = away
    assert carried(courier, 3) in ([0, 1], [0, 1, 2])
    assert carried(courier, 3, 2) == [0, 1, 2]


def test_a_node_with_anothers_number_is_not_let_in(clock):
    courier, _post, roll, words = federation(clock, GOOD, GOOD, deadline=5.0)
    roll._keys = {10: 0, 11: 0}
    courier.muster()
    assert not roll.members[1].there
    assert any("says --partition 1, but its key is that of client 0" in line for line in words)


def test_a_round_of_some_clients_asks_only_these(clock):
    courier, post, _roll, _ = federation(clock, GOOD, GOOD, GOOD)
    courier.muster()
    replies = courier.carry(None, {2: Order(1, 0.1, b"")})
    assert [reply.client for reply in replies] == [2]
    assert not post.orders_to(10)


def test_a_clients_words_are_one_short_printable_line(clock):
    courier, _post, roll, words = federation(clock, GOOD, RUDE)
    courier.muster()
    assert carried(courier, 2) == [0]
    assert roll.members[1].trouble.startswith("[2J prunefl: round 99 xxx")
    assert all(line.isprintable() and len(line) < 400 for line in words)


def test_a_clients_weight_is_what_it_said_when_it_came(clock):
    courier, _post, _roll, _ = federation(clock, GOOD, GOOD, GOOD)
    courier.muster()
    replies = courier.carry(None, orders(3))
    assert {reply.client: reply.num_samples for reply in replies} == {0: 5, 1: 6, 2: 7}


def test_an_order_to_prune_first_outlives_any_deadline_and_is_sent_once(clock):
    courier, post, _roll, _ = federation(clock, GOOD, deadline=10.0)
    courier.muster()
    post.delay[10] = 5000.0
    plan = InitialPlan(10, 1, 1.0, 0.1, 1, 5)
    assert len(courier.carry(None, {0: Order(0, 0.1, b"", initial=plan)})) == 1
    assert len(post.orders_to(10)) == 1
    assert post.lives[-1] > 5000


def test_who_is_still_at_an_order_is_told_that_the_run_is_over(clock):
    courier, post, _roll, _ = federation(clock, GOOD, SILENT, deadline=10.0)
    courier.muster()
    carried(courier, 2)
    before = clock.now
    courier.say_farewell()
    assert [node for node, letter in post.sent if letter.kind == "farewell"] == [10, 11]
    assert clock.now - before < 1
