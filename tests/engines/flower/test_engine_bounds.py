"""What one client can say or keep back, and who is waited for: a run on a mailbox that can lie."""

from dataclasses import replace

import pytest
from fake_mailbox import (
    BOASTS,
    GOOD,
    LEAVES,
    PASSES,
    RUDE,
    SILENT,
    STUCK,
    WORKING,
    carried,
    federation,
    orders,
)

from prunefl.rounds.messages import EvaluationWork


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
    assert sorted(reply.client for reply in replies) == [0, 2]
    assert len(mailbox.orders_to(11)) == 1
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


@pytest.mark.parametrize("manner", [SILENT, STUCK])
def test_who_does_not_get_on_while_it_should_prune_first_is_passed_over(clock, manner):
    engine, _mailbox, membership, _ = federation(clock, manner, GOOD, deadline=10.0, initial_deadline=100.0)
    engine.wait_for_clients()
    before = clock.now
    assert carried(engine, 1, number=0) == []
    assert 10 < clock.now - before < 13
    assert membership.members[0].refusal == "no progress in round 0 for 10 s"


def test_who_gets_on_may_prune_for_as_long_as_that_takes_but_not_beyond_the_initial_deadline(clock):
    engine, mailbox, _membership, _ = federation(clock, WORKING, deadline=10.0, initial_deadline=9000.0)
    engine.wait_for_clients()
    mailbox.delay[10] = 8.0
    before = clock.now
    assert carried(engine, 1, number=0) == [0]
    assert clock.now - before > PASSES * 8
    assert len(mailbox.orders_to(10)) == 1
    late, mailbox, membership, _ = federation(clock, WORKING, deadline=10.0, initial_deadline=100.0)
    late.wait_for_clients()
    mailbox.delay[10] = 8.0
    assert carried(late, 1, number=0) == []
    assert membership.members[0].refusal == "no answer in round 0"


def test_of_three_that_prune_first_one_that_hangs_costs_a_deadline_and_no_more(clock):
    engine, _mailbox, _membership, _ = federation(clock, GOOD, SILENT, GOOD, deadline=10.0)
    engine.wait_for_clients()
    before = clock.now
    assert carried(engine, 3, number=0) == [0, 2]
    assert clock.now - before < 13


def test_more_passes_than_there_are_are_not_believed(clock):
    engine, mailbox, membership, _ = federation(clock, BOASTS, deadline=10.0)
    engine.wait_for_clients()
    assert carried(engine, 1, number=0) == []
    assert membership.members[0].refusals == 2
    assert len([envelope for _, envelope in mailbox.sent if envelope.kind == "go_on"]) == 0


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
