"""A round with real troubles, on a mailbox that we can make late, lose and lie."""

from dataclasses import dataclass, field, replace

import pytest

from prunefl.engines.flower import engine as module
from prunefl.engines.flower.codec import encode_reply
from prunefl.engines.flower.engine import FlowerEngine, Terms
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.mailbox import Answer
from prunefl.engines.flower.membership import Membership
from prunefl.methods import Work
from prunefl.rounds.messages import EvaluationWork, Order, Reply

GOOD, SILENT, GARBAGE, NAN, STATE_WANTED = "good", "silent", "garbage", "nan", "state_wanted"
ERROR, RUDE, LEAVES = "error", "rude", "leaves"


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
class FakeMailbox:
    """Nodes 10, 11, ... that behave as told; an answer comes `delay` seconds after its envelope."""

    clock: Clock
    manners: dict[int, str]
    since: dict[int, str]
    delay: dict[int, float] = field(default_factory=dict)
    sent: list[tuple[int, Envelope]] = field(default_factory=list)
    due: list[tuple[float, Answer]] = field(default_factory=list)
    lives: list[float] = field(default_factory=list)
    held_out: int = 0

    def list_online(self):
        return dict(self.since)

    def send(self, envelopes, seconds, group):
        names = {}
        for node, sealed in envelopes.items():
            envelope = unseal(sealed)
            names[node] = f"m{len(self.sent)}"
            self.sent.append((node, envelope))
            self.lives.append(seconds)
            answer = self.answer(node, envelope)
            if answer is not None:
                self.due.append((self.clock.now + self.delay.get(node, 0.1), Answer(names[node], *answer)))
        return names

    def answer(self, node, envelope):
        client = node - 10
        if envelope.kind == "hello":
            joined = {"client": client, "num_samples": 5 + client, "held_out": self.held_out}
            return (seal(Envelope("joined", joined)),)
        if envelope.kind in ("end", "refused"):
            return (seal(envelope),)
        manner = self.manners[node]
        if manner == STATE_WANTED and envelope.values["config"]:
            manner = GOOD
        reply = Reply(client, envelope.values["round"], 5, 0.5, b"model" + envelope.parts[0])
        envelopes = {
            GOOD: (seal(encode_reply(reply)),),
            GARBAGE: (b"garbage",),
            NAN: (seal(encode_reply(Reply(client, reply.round, 5, float("nan"), b"model"))),),
            STATE_WANTED: (seal(Envelope("state_wanted")),),
            ERROR: (b"", "the ClientApp crashed"),
            LEAVES: (seal(Envelope("error", {"what": "other data", "client": client, "leaves": True})),),
            RUDE: (seal(Envelope("error", {"what": "\x1b[2J\nprunefl: round 99 " + "x" * 9999})),),
        }
        return envelopes.get(manner)

    def fetch(self):
        ready = [answer for when, answer in self.due if when <= self.clock.now]
        self.due = [(when, answer) for when, answer in self.due if when > self.clock.now]
        return ready

    def forget(self, name):
        self.due = [(when, answer) for when, answer in self.due if answer.message != name]

    def orders_to(self, node):
        return [envelope for number, envelope in self.sent if number == node and envelope.kind == "order"]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr("prunefl.engines.flower.membership.time", clock)
    return clock


def federation(clock, *manners, quorum=0.5, deadline=10.0, initial_deadline=86400.0, min_clients=0, only=()):
    nodes = range(10, 10 + len(manners))
    mailbox = FakeMailbox(clock, dict(zip(nodes, manners, strict=True)), dict.fromkeys(nodes, "monday"))
    words = []
    keys = {node: node - 10 for node in nodes}
    hello = seal(Envelope("hello"))
    membership = Membership(mailbox, len(manners), keys, hello, deadline, words.append, only)
    terms = Terms(quorum, deadline, initial_deadline, "run", "config", min_clients=min_clients)
    engine = FlowerEngine(
        mailbox,
        membership,
        terms,
        lambda state, order: replace(order, model=b"!"),
        words.append,
        lambda: None,
    )
    return engine, mailbox, membership, words


def orders(count, number=1):
    return {client: Order(number, 0.1, b"", Work()) for client in range(count)}


def carried(engine, count, number=1):
    return sorted(reply.client for reply in engine.carry(None, orders(count, number)))


def test_all_good_replies_come_back_without_waiting_for_the_deadline(clock):
    engine, _mailbox, membership, _ = federation(clock, GOOD, GOOD, GOOD)
    engine.wait_for_clients()
    before = clock.now
    assert carried(engine, 3) == [0, 1, 2]
    assert clock.now - before < 2
    assert [member.num_samples for member in membership.members.values()] == [5, 6, 7]


@pytest.mark.parametrize("manner", [SILENT, GARBAGE, NAN, ERROR])
def test_a_bad_client_costs_its_own_update_and_is_counted(clock, manner):
    engine, mailbox, membership, words = federation(clock, GOOD, manner, GOOD)
    engine.wait_for_clients()
    assert carried(engine, 3) == [0, 2]
    assert [member.refusals for member in membership.members.values()] == [0, 1, 0]
    assert len(mailbox.orders_to(11)) == 1
    assert any("client 1: update left out" in line for line in words)


def test_a_bug_of_the_server_is_not_blamed_on_a_client(clock, monkeypatch):
    engine, _mailbox, membership, _ = federation(clock, GOOD, GOOD)
    engine.wait_for_clients()
    monkeypatch.setattr(module, "decode_reply", lambda *_: {}["bug"])
    with pytest.raises(KeyError, match="bug"):
        carried(engine, 2)
    assert [member.refusals for member in membership.members.values()] == [0, 0]


def test_a_silent_client_is_waited_for_once_and_not_again(clock):
    engine, mailbox, _membership, _ = federation(clock, GOOD, SILENT, GOOD, deadline=10.0)
    engine.wait_for_clients()
    start = clock.now
    carried(engine, 3, 1)
    first, start = clock.now - start, clock.now
    carried(engine, 3, 2)
    assert first > 10
    assert clock.now - start < 2
    assert len(mailbox.orders_to(11)) == 1


def test_a_late_answer_is_left_out_and_its_client_takes_part_again(clock):
    engine, mailbox, membership, words = federation(clock, GOOD, GOOD, GOOD, deadline=10.0)
    engine.wait_for_clients()
    mailbox.delay[11] = 10.5
    assert carried(engine, 3, 1) == [0, 2]
    mailbox.delay[11] = 0.1
    clock.sleep(5)
    carried(engine, 3, 2)
    assert any("round 1 came late" in line for line in words)
    assert carried(engine, 3, 3) == [0, 1, 2]
    assert membership.members[1].refusals == 2


def test_a_client_that_was_killed_and_came_back_is_asked_again_in_the_same_round(clock):
    engine, mailbox, _membership, _ = federation(clock, GOOD, SILENT, GOOD, deadline=60.0)
    engine.wait_for_clients()
    sleep = clock.sleep

    def sleep_and_restart(seconds):
        sleep(seconds)
        if clock.now > 1010 and mailbox.manners[11] == SILENT:
            mailbox.manners[11], mailbox.since[11] = GOOD, "tuesday"

    clock.sleep = sleep_and_restart
    assert carried(engine, 3) == [0, 1, 2]
    assert clock.now < 1020
    assert len(mailbox.orders_to(11)) == 2


def test_a_client_with_other_masks_gets_the_whole_state_in_the_same_round(clock):
    engine, _mailbox, membership, _ = federation(clock, GOOD, STATE_WANTED)
    engine.wait_for_clients()
    replies = engine.carry(None, orders(2))
    assert {reply.client: reply.model for reply in replies} == {0: b"model", 1: b"model!"}
    assert membership.members[1].refusals == 0


def test_without_a_quorum_the_server_waits_says_so_and_asks_again(clock):
    engine, mailbox, _membership, words = federation(clock, GOOD, GARBAGE, ERROR, quorum=0.6, deadline=10.0)
    engine.wait_for_clients()
    sleep = clock.sleep

    def mend(seconds):
        sleep(seconds)
        if clock.now > 1035:
            mailbox.manners[12] = GOOD

    clock.sleep = mend
    assert carried(engine, 3) == [0, 2]
    assert clock.now > 1035
    assert any(
        "1 of 3 updates, 2 are needed (server.quorum=0.6); waiting for client 1, 2" in line for line in words
    )


def test_the_server_waits_for_all_and_after_the_deadline_for_a_quorum(clock):
    engine, mailbox, _membership, _words = federation(clock, GOOD, GOOD, GOOD, deadline=10.0)
    away = mailbox.since.pop(12)
    engine.wait_for_clients()
    assert clock.now > 1010
    assert carried(engine, 3) == [0, 1]
    mailbox.since[12] = away
    assert carried(engine, 3, 2) == [0, 1, 2]


def test_a_node_with_anothers_number_is_not_let_in(clock):
    engine, _mailbox, membership, words = federation(clock, GOOD, GOOD, deadline=5.0)
    membership._keys = {10: 0, 11: 0}
    engine.wait_for_clients()
    assert not membership.members[1].online
    assert any("says --client 1, but its key is that of client 0" in line for line in words)


def test_a_round_of_some_clients_asks_only_these(clock):
    engine, mailbox, _membership, _ = federation(clock, GOOD, GOOD, GOOD)
    engine.wait_for_clients()
    replies = engine.carry(None, {2: orders(3)[2]})
    assert [reply.client for reply in replies] == [2]
    assert not mailbox.orders_to(10)


def test_a_late_update_is_no_answer_to_the_evaluation_after_its_round(clock):
    engine, mailbox, _membership, words = federation(clock, GOOD, GOOD, GOOD, deadline=10.0)
    engine.wait_for_clients()
    mailbox.delay[11] = 10.5
    assert carried(engine, 3, 1) == [0, 2]
    mailbox.delay[11] = 0.1
    clock.sleep(5)
    asked = {client: replace(order, work=EvaluationWork()) for client, order in orders(3, 1).items()}
    replies = engine.carry(None, asked)
    kinds = [envelope.values["work"]["kind"] for envelope in mailbox.orders_to(10)]
    assert kinds == ["Work", "EvaluationWork"]
    assert 1 not in {reply.client for reply in replies} or len(mailbox.orders_to(11)) == 2
    assert any("its answer for round 1 came late" in line for line in words)


@pytest.mark.parametrize("announced", [0, 7])
def test_a_client_is_held_to_the_held_out_samples_that_it_announced(clock, announced):
    engine, mailbox, _membership, _ = federation(clock, GOOD)
    mailbox.held_out = announced
    engine.wait_for_clients()
    assert [reply.held_out for reply in engine.carry(None, orders(1))] == [announced]


def test_a_clients_words_are_one_short_printable_line(clock):
    engine, _mailbox, membership, words = federation(clock, GOOD, RUDE)
    engine.wait_for_clients()
    assert carried(engine, 2) == [0]
    assert membership.members[1].refusal.startswith("[2J prunefl: round 99 xxx")
    assert all(line.isprintable() and len(line) < 400 for line in words)


def test_a_clients_weight_is_what_it_said_when_it_came(clock):
    engine, _mailbox, _membership, _ = federation(clock, GOOD, GOOD, GOOD)
    engine.wait_for_clients()
    replies = engine.carry(None, orders(3))
    assert {reply.client: reply.num_samples for reply in replies} == {0: 5, 1: 6, 2: 7}


def test_who_hangs_while_it_should_prune_first_is_not_waited_for_for_ever(clock):
    engine, _mailbox, membership, _ = federation(clock, SILENT, GOOD, deadline=10.0, initial_deadline=100.0)
    engine.wait_for_clients()
    before = clock.now
    assert carried(engine, 1, number=0) == []
    assert 100 < clock.now - before < 110
    assert membership.members[0].refusal == "no answer in round 0"


def test_an_order_to_prune_first_outlives_a_rounds_deadline_and_is_sent_once(clock):
    engine, mailbox, _membership, _ = federation(clock, GOOD, deadline=10.0)
    engine.wait_for_clients()
    mailbox.delay[10] = 5000.0
    assert carried(engine, 1, number=0) == [0]
    assert len(mailbox.orders_to(10)) == 1
    assert mailbox.lives[-1] > 5000


def test_who_is_still_at_an_order_is_told_that_the_run_is_over(clock):
    engine, mailbox, _membership, _ = federation(clock, GOOD, SILENT, deadline=10.0)
    engine.wait_for_clients()
    carried(engine, 2)
    before = clock.now
    engine.end_run()
    assert [node for node, envelope in mailbox.sent if envelope.kind == "end"] == [10, 11]
    assert clock.now - before < 1


def test_a_run_begins_with_as_many_clients_as_it_waits_for_and_the_others_join_in_the_middle(clock):
    engine, mailbox, membership, words = federation(
        clock, *[GOOD] * 5, quorum=1.0, deadline=60.0, min_clients=2
    )
    late = {node: mailbox.since.pop(node) for node in (11, 13, 14)}
    del mailbox.since[12]
    sleep = clock.sleep

    def second_comes_late(seconds):
        sleep(seconds)
        if clock.now > 1300:
            mailbox.since[12] = "monday"

    clock.sleep = second_comes_late
    engine.wait_for_clients()
    # however long that takes: one is not two
    assert clock.now > 1300
    assert any("1 of 5 clients are there, 2 are needed" in line for line in words)
    assert carried(engine, 5) == [0, 2]
    assert clock.now < 1310
    mailbox.since |= late
    clock.sleep = sleep
    membership.refresh()
    clock.sleep(1)
    assert carried(engine, 5, 2) == [0, 1, 2, 3, 4]


def test_a_round_waits_for_as_many_updates_as_the_run_has_clients_at_least(clock):
    engine, mailbox, _, words = federation(clock, GOOD, GOOD, SILENT, min_clients=3, quorum=0.1, deadline=5.0)
    engine.wait_for_clients()
    sleep = clock.sleep

    def wake(seconds):
        sleep(seconds)
        if clock.now > 1030:
            mailbox.manners[12], mailbox.since[12] = GOOD, "tuesday"

    clock.sleep = wake
    assert carried(engine, 3) == [0, 1, 2]
    assert any("3 are needed (server.min_clients=3)" in line for line in words)


def test_who_was_not_chosen_is_not_let_in_and_shown(clock):
    engine, _mailbox, membership, words = federation(clock, GOOD, GOOD, GOOD, only=(0, 2))
    engine.wait_for_clients()
    assert list(membership.members) == [0, 2]
    assert all(member.online for member in membership.members.values())
    membership.refresh()
    clock.sleep(1)
    carried_by = engine.carry(None, {client: orders(3)[client] for client in (0, 2)})
    assert sorted(reply.client for reply in carried_by) == [0, 2]
    assert membership.turned_away == {1: "it says --client 1, but only 0, 2 take part in this run"}
    assert any("client 1 cannot take part" in line for line in words)


def test_a_client_whose_data_has_changed_leaves_and_is_told_that_this_was_heard(clock):
    engine, mailbox, membership, words = federation(clock, GOOD, LEAVES, GOOD)
    engine.wait_for_clients()
    assert carried(engine, 3) == [0, 2]
    member = membership.members[1]
    assert (member.barred, member.online) == ("other data", False)
    assert [envelope.kind for node, envelope in mailbox.sent if node == 11] == ["hello", "order", "refused"]
    assert any("client 1 leaves: other data" in line for line in words)
    assert carried(engine, 3, 2) == [0, 2]
    assert len(mailbox.orders_to(11)) == 1
