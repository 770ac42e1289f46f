"""A server that lies about noise: a client adds its share where enough others do, and once for a round."""

from dataclasses import replace

import numpy as np
import pytest

from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Segment, decode
from prunefl.privacy.messages import Plan, Verdict
from prunefl.privacy.noise_shares import Noising
from prunefl.privacy.server import unmask_sum
from secure_federation import Federation, add_up

CLIENTS = range(5)
"""Of five, four must remain."""


@pytest.fixture
def federation() -> Federation:
    made = Federation(CLIENTS)
    made.introduce()
    return made


def masked_with_noise(federation: Federation, noising: Noising, segments=None) -> Plan:
    """Take all clients to where they have sent vectors with noise."""
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    terms = replace(federation.terms(sent), noising=noising)
    terms = replace(terms, segments=segments or terms.segments)
    for client in CLIENTS:
        federation.mask(client, plan, terms, sent, np.ones(50, np.float32))
    return plan


def test_fewer_than_make_the_noise_that_was_promised(federation: Federation) -> None:
    """Shares for five, and one of them said to be dead: the sum would have less noise than is counted."""
    plan = masked_with_noise(federation, Noising(1.0, 1.0, 5))
    with pytest.raises(Refused, match="4 of 5 clients are left, this client insists on 5"):
        federation.unmask(0, Verdict(plan.serial, (0, 1, 2, 3), (4,)))
    with pytest.raises(Refused, match="a sum of 5 of 5 clients, this client insists on 6"):
        masked_with_noise(federation, Noising(1.0, 1.0, 6))


def test_noise_that_one_client_is_told_to_make_enough_of(federation: Federation) -> None:
    with pytest.raises(Refused, match="noise that 1 clients make enough of, must be >= 3"):
        masked_with_noise(federation, Noising(1.0, 1.0, 1))


@pytest.mark.parametrize(
    ("noising", "segments"),
    [
        (Noising(1.0, 1.0, 5), None),
        (Noising(1.0, 2.0, 4), None),
        (Noising(1.0, 1.0, 4), (Segment("values", 50, 8.0),)),
    ],
)
def test_a_second_unmasking_of_one_round_under_other_noise_or_on_another_grid(
    federation: Federation, noising, segments
) -> None:
    """The same updates under two noises have less than one."""
    plan = masked_with_noise(federation, Noising(1.0, 1.0, 4))
    everybody = tuple(CLIENTS)
    federation.unmask(0, Verdict(plan.serial, everybody, ()))
    again = masked_with_noise(federation, noising, segments)
    with pytest.raises(Refused, match=r"round 1 was unmasked before, .* under other noise"):
        federation.unmask(0, Verdict(again.serial, everybody, ()))
    same = masked_with_noise(federation, Noising(1.0, 1.0, 4))
    federation.unmask(0, Verdict(same.serial, everybody, ()))


def test_noise_that_some_are_told_otherwise_of(federation: Federation, rng) -> None:
    """One that is told of a large clip, and the others of a small one, would hide by its own noise alone."""
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    terms = replace(federation.terms(sent), noising=Noising(1.0, 1.0, 4))
    other = replace(terms, noising=Noising(1.0, 1e-6, 4))
    values = {client: rng.uniform(-1, 1, 50).astype(np.float32) for client in CLIENTS}
    told = {client: terms if client == 2 else other for client in CLIENTS}
    vectors = {c: federation.mask(c, plan, told[c], sent, values[c]) for c in CLIENTS}
    verdict = Verdict(plan.serial, tuple(CLIENTS), ())
    answers = {client: federation.unmask(client, verdict) for client in CLIENTS}
    layout = other.layout(plan)
    found = unmask_sum(plan, federation.rules, other, sent, add_up(vectors, layout), verdict, answers)
    wanted = sum(values.values())
    assert np.abs(decode(found, layout)["values"] - wanted).mean() > 1.0
