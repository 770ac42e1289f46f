"""A server that lies: whatever it says, a client tells it no more than one sum, or nothing."""

from dataclasses import replace

import numpy as np
import pytest

from prunefl.privacy import client as half
from prunefl.privacy.errors import Refused, TooFew
from prunefl.privacy.fixed_point import decode
from prunefl.privacy.holdings import Secrets
from prunefl.privacy.messages import Plan, Terms, Verdict, pack_parts, pack_table, unpack_parts, unpack_table
from prunefl.privacy.server import Shared, ask_to_mask, parse_shared, unmask_sum
from secure_federation import Federation, add_up, sum_securely

CLIENTS = range(5)
"""Of five, four must remain."""


@pytest.fixture
def federation() -> Federation:
    made = Federation(CLIENTS)
    made.introduce()
    return made


def masked(federation: Federation) -> tuple[Plan, Terms, dict[int, Shared]]:
    """Take all clients to where they have sent their vectors."""
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    terms = federation.terms(sent)
    for client in CLIENTS:
        federation.mask(client, plan, terms, sent, np.ones(50, np.float32))
    return plan, terms, sent


def test_a_node_that_is_alive_and_dead(federation: Federation) -> None:
    plan, _, _ = masked(federation)
    with pytest.raises(Refused, match="client 3 is said to be alive and dead"):
        federation.unmask(0, Verdict(plan.serial, tuple(CLIENTS), (3,)))


@pytest.mark.parametrize(
    ("alive", "dead", "why"),
    [
        ((0, 1, 2, 3), (), "alive and dead are others"),
        ((0, 1, 2, 3, 4, 5), (), "alive and dead are others"),
        ((1, 2, 3, 4), (0,), "this client is alive, and said to be dead"),
        ((0, 1, 2), (3, 4), "3 of 5 clients are left, this client insists on 4"),
        ((0,), (1, 2, 3, 4), "this client insists on 4"),
    ],
)
def test_sets_that_are_not_those_who_masked_or_too_small(
    federation: Federation, alive, dead, why: str
) -> None:
    plan, _, _ = masked(federation)
    with pytest.raises(Refused, match=why):
        federation.unmask(0, Verdict(plan.serial, alive, dead))


def test_a_node_listed_twice(federation: Federation) -> None:
    plan, _, _ = masked(federation)
    with pytest.raises(Refused, match="names one twice"):
        federation.unmask(0, Verdict(plan.serial, (0, 1, 2, 3, 4, 4), ()))


def test_two_unmaskings_of_one_sum(federation: Federation) -> None:
    plan, _, _ = masked(federation)
    federation.unmask(0, Verdict(plan.serial, (0, 1, 2, 3), (4,)))
    for verdict in (Verdict(plan.serial, (0, 1, 2, 4), (3,)), Verdict(plan.serial, (0, 1, 2, 3), (4,))):
        with pytest.raises(Refused, match="was unmasked before"):
            federation.unmask(0, verdict)


def test_two_unmaskings_of_one_round_in_two_attempts(federation: Federation) -> None:
    """The difference of two sums of the same updates would be what one client sent."""
    plan, _, _ = masked(federation)
    federation.unmask(0, Verdict(plan.serial, (0, 1, 2, 3), (4,)))
    again, _, _ = masked(federation)
    with pytest.raises(Refused, match="round 1 was unmasked before, as the sum of other clients"):
        federation.unmask(0, Verdict(again.serial, (0, 1, 2, 3, 4), ()))
    # the same sum once more tells nothing new
    federation.unmask(0, Verdict(again.serial, (0, 1, 2, 3), (4,)))


def test_a_sum_that_was_there_before(federation: Federation) -> None:
    plan = federation.plan()
    message = federation.ask_for_shares(plan)
    federation.share(plan, CLIENTS)
    with pytest.raises(Refused, match="none comes twice"):
        half.share(federation.secrets[0], federation.member(0), message)


def test_two_vectors_under_one_mask(federation: Federation) -> None:
    plan, terms, sent = masked(federation)
    with pytest.raises(Refused, match="without new keys"):
        federation.mask(0, plan, terms, sent, np.zeros(50, np.float32))


def test_a_threshold_lowered(federation: Federation) -> None:
    """It is not the server that says it: neither by fewer who are present, nor by a cohort of two."""
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    few = {client: sent[client] for client in (0, 1, 2)}
    with pytest.raises(Refused, match="a sum of 3 of 5 clients, this client insists on 4"):
        federation.mask(0, plan, federation.terms(few), few, np.ones(50, np.float32))
    federation.clients = (0, 1)
    with pytest.raises(Refused, match="a sum of 2 clients, must be >= 3"):
        federation.share(federation.plan(), [0])


def test_a_substituted_key(federation: Federation) -> None:
    """The server puts a key of its own in a client's place: it cannot sign for it."""
    forged = Federation(CLIENTS)
    forged.introduce()
    federation.introductions[3] = forged.introductions[3]
    with pytest.raises(Refused, match="a key that client 3 has not signed"):
        federation.share(federation.plan(), [0])


def test_a_key_signed_for_another_client(federation: Federation) -> None:
    federation.introductions[3] = federation.introductions[2]
    with pytest.raises(Refused, match="a key that client 3 has not signed"):
        federation.share(federation.plan(), [0])


def test_a_replayed_key_of_an_epoch_before(federation: Federation) -> None:
    old = dict(federation.introductions)
    federation.epoch = 2
    federation.introduce()
    federation.introductions[3] = old[3]
    with pytest.raises(Refused, match="a key that client 3 has not signed"):
        federation.share(federation.plan(), [0])


def test_a_replayed_key_of_another_run(federation: Federation) -> None:
    other = replace(federation.member(3), run="another-run")
    _, federation.introductions[3] = half.introduce(Secrets(), other, federation.epoch)
    with pytest.raises(Refused, match="a key that client 3 has not signed"):
        federation.share(federation.plan(), [0])


def test_a_second_key_of_a_client_in_one_epoch(federation: Federation) -> None:
    """As of a client that has begun anew: others keep the first, and all have to make new ones."""
    federation.share(federation.plan(), [0])
    _, federation.introductions[3] = half.introduce(Secrets(), federation.member(3), federation.epoch)
    with pytest.raises(Refused, match="a second key of client 3 in epoch 1"):
        federation.share(federation.plan(), [0])


def test_a_key_is_said_again_but_not_made_again_and_never_for_the_past(federation: Federation) -> None:
    said = half.introduce(federation.secrets[0], federation.member(0), 1)[1]
    assert said == federation.introductions[0]
    with pytest.raises(Refused, match="a key for epoch 0"):
        half.introduce(federation.secrets[0], federation.member(0), 0)


def test_a_substituted_round_key_or_shares_of_another_round(federation: Federation) -> None:
    """Round keys come sealed from client to client; what the server puts in their place does not open."""
    first = federation.share(federation.plan(), CLIENTS)
    plan = federation.plan("round 2")
    sent = federation.share(plan, CLIENTS)
    replayed = {**sent, 3: first[3]}
    with pytest.raises(Refused, match="not encrypted for this round"):
        federation.mask(0, plan, federation.terms(sent), replayed, np.ones(50, np.float32))
    swapped = {**sent, 3: sent[2]}
    with pytest.raises(Refused, match="not encrypted for this round"):
        federation.mask(0, plan, federation.terms(sent), swapped, np.ones(50, np.float32))


def test_shares_that_one_neighbour_lacks(federation: Federation) -> None:
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    terms = federation.terms(sent)
    terms_bytes, sealed = unpack_parts(ask_to_mask(0, plan, federation.rules, terms, sent), 2)
    fewer = {client: part for client, part in unpack_table(sealed).items() if client != 4}
    with pytest.raises(Refused, match="not those of this client's neighbours"):
        half.prepare_mask(
            federation.secrets[0], federation.member(0), pack_parts(terms_bytes, pack_table(fewer))
        )


def test_clients_that_were_told_different_things_come_to_nothing(federation: Federation) -> None:
    """Weights that count for one client alone: masks depend on what was said, and do not cancel."""
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    terms = federation.terms(sent)
    vectors = {}
    for client in CLIENTS:
        told = terms if client else replace(terms, cap=1000)
        vectors[client] = federation.mask(client, plan, told, sent, np.ones(50, np.float32))
    verdict = Verdict(plan.serial, tuple(CLIENTS), ())
    answers = {client: federation.unmask(client, verdict) for client in CLIENTS}
    from prunefl.privacy.server import unmask_sum

    layout = terms.layout(plan)
    total = unmask_sum(plan, federation.rules, terms, sent, add_up(vectors, layout), verdict, answers)
    found = decode(total, layout)["values"]
    assert np.abs(found - 5).min() > 1e-3
    assert np.abs(found).max() > 5.01


def test_another_run_epoch_or_a_sum_without_this_client(federation: Federation) -> None:
    plan = federation.plan()
    for other, why in (
        (replace(plan, run="another-run"), "a sum of run 'another-run'"),
        (replace(plan, epoch=7), "a sum of epoch 7"),
        (replace(plan, cohort=(1, 2, 3)), "has no part"),
    ):
        with pytest.raises(Refused, match=why):
            half.share(federation.secrets[0], federation.member(0), federation.ask_for_shares(other))


def test_a_server_that_says_one_thing_to_some_and_another_to_others_opens_nothing(rng) -> None:
    """Of four, {0, 3} are told that 2 is dead, {1, 2} that 3 is: together enough shares for a sum of 0 and 1 alone."""
    federation = Federation(range(4))
    federation.introduce()
    plan = federation.plan()
    sent = federation.share(plan, range(4))
    terms = federation.terms(sent)
    layout = terms.layout(plan)
    vectors = {c: federation.mask(c, plan, terms, sent, rng.uniform(-1, 1, 50)) for c in range(4)}
    without_2, without_3 = Verdict(plan.serial, (0, 1, 3), (2,)), Verdict(plan.serial, (0, 1, 2), (3,))
    answers = {c: federation.unmask(c, without_2 if c in (0, 3) else without_3) for c in range(4)}
    for verdict in (without_2, without_3, Verdict(plan.serial, (0, 1), (2, 3))):
        kept = {c: vectors[c] for c in verdict.alive}
        with pytest.raises(TooFew):
            unmask_sum(plan, federation.rules, terms, sent, add_up(kept, layout), verdict, answers)


def test_neighbours_all_said_to_be_dead_on_a_graph() -> None:
    """The masks of a client whose neighbours are dead could all be taken away: every client looks at the graph."""
    federation = Federation(range(30), neighbours=6)
    federation.introduce()
    plan = federation.plan()
    sent = federation.share(plan, range(30))
    terms = federation.terms(sent)
    for client in range(30):
        federation.mask(client, plan, terms, sent, np.ones(50, np.float32))
    dead = federation.rules.find_neighbours(5, plan)
    alive = [client for client in range(30) if client not in dead]
    judge = next(client for client in alive if client != 5)
    with pytest.raises(Refused, match="neighbours left"):
        federation.unmask(judge, Verdict(plan.serial, tuple(alive), tuple(dead)))


@pytest.mark.parametrize("part", range(3))
def test_garbage_is_refused_and_nothing_else(federation: Federation, part: int, rng) -> None:
    """Any bytes, in place of what the server says in any step."""
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    honest = [
        federation.ask_for_shares(replace(plan, serial=plan.serial + 1)),
        ask_to_mask(0, plan, federation.rules, federation.terms(sent), sent),
        Verdict(plan.serial, tuple(CLIENTS), ()).pack(),
    ][part]
    step = [half.share, half.prepare_mask, half.unmask][part]
    for _ in range(200):
        data = bytearray(honest)
        for place in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[place] ^= int(rng.integers(1, 256))
        cut = bytes(data[: int(rng.integers(0, len(data)))]) if rng.random() < 0.3 else bytes(data)
        try:
            step(federation.secrets[0], federation.member(0), cut)
        except Refused:
            continue
        # what still opens is what all would have to be told alike, such as another purpose
        assert part == 0 or step is half.prepare_mask


def test_an_honest_round_after_all_that(federation: Federation) -> None:
    values = {client: np.full(50, client / 8, np.float32) for client in CLIENTS}
    found, _ = sum_securely(federation, values, dict.fromkeys(CLIENTS, 1.0))
    assert np.allclose(found, sum(range(5)) / 8, atol=1e-6)


def test_an_answer_of_a_client_that_is_none_is_refused_by_the_server() -> None:
    for data in (b"", b"\0" * 3, pack_parts(b"", b"", b""), pack_parts(b"x" * 32, b"", b"\1\0\0\0\\9")):
        with pytest.raises(Refused):
            parse_shared(data)
