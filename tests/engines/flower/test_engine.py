"""A round with real troubles, on a mailbox that we can make late, lose and lie."""

import pytest
from fake_mailbox import (
    ERROR,
    GARBAGE,
    GOOD,
    NAN,
    SILENT,
    STATE_WANTED,
    carried,
    federation,
    orders,
)

from prunefl.engines.flower import engine as module
from prunefl.engines.flower.envelope import Envelope, seal, unseal


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


def test_keys_that_clients_give_when_they_join_are_handed_on_once(clock):
    engine, mailbox, membership, _ = federation(clock, GOOD, GOOD)
    membership.epoch = 7
    answer = mailbox.answer

    def join(node, envelope):
        if envelope.kind != "hello":
            return answer(node, envelope)
        joined = unseal(answer(node, envelope)[0])
        about = {**joined.values, "epoch": envelope.values["epoch"]}
        return (seal(Envelope("joined", about, (b"key %d" % node,))),)

    mailbox.answer = join
    engine.wait_for_clients()
    assert engine.take_keys(8) == {0: (7, b"key 10"), 1: (7, b"key 11")}
    assert engine.take_keys(8) == {}
    # a new process is asked for the epoch that comes next, and has nothing of its former self
    mailbox.since[11] = "tuesday"
    carried(engine, 2)
    assert engine.take_keys(9) == {1: (8, b"key 11")}
