"""A server that lies about keys that were made ahead of their epoch."""

from dataclasses import replace

import numpy as np
import pytest
from test_cheating_server import CLIENTS, federation, masked  # noqa: F401

from prunefl.privacy import client as half
from prunefl.privacy.errors import Refused
from prunefl.privacy.holdings import Secrets
from prunefl.privacy.messages import Verdict
from secure_federation import Federation, sum_securely

# the fixture is imported
# ruff: noqa: F811


def ahead(federation: Federation, epoch: int) -> dict[int, bytes]:
    """Have all clients make their keys of a later epoch, while this one goes on."""
    now, federation.epoch = (federation.epoch, dict(federation.introductions)), epoch
    federation.introduce()
    made = dict(federation.introductions)
    federation.epoch, federation.introductions = now
    return made


def test_a_key_made_ahead_and_then_replaced_by_the_server(federation: Federation) -> None:
    """Nobody has seen the first one yet; but the server cannot sign, and an earlier one is not for this epoch."""
    early, before = ahead(federation, 2), dict(federation.introductions)
    forged = Federation(CLIENTS, epoch=2)
    forged.introduce()
    federation.epoch = 2
    for wrong in (forged.introductions[3], before[3], early[2], ahead(federation, 3)[3]):
        federation.introductions = {**early, 3: wrong}
        with pytest.raises(Refused, match="a key that client 3 has not signed"):
            federation.share(federation.plan(), [0])
    federation.introductions = early
    assert federation.share(federation.plan(), CLIENTS).keys() == set(CLIENTS)


def test_a_key_made_ahead_is_not_changed_once_it_was_shown(federation: Federation) -> None:
    early = ahead(federation, 2)
    federation.epoch, federation.introductions = 2, early
    federation.share(federation.plan(), [0])
    _, other = half.introduce(Secrets(), federation.member(3), 2)
    federation.introductions = {**early, 3: other}
    with pytest.raises(Refused, match="a second key of client 3 in epoch 2"):
        federation.share(federation.plan(), [0])


def test_making_a_key_ahead_changes_nothing_of_the_sum_that_is_under_way(federation: Federation) -> None:
    plan, terms, sent = masked(federation)
    ahead(federation, 2)
    verdict = Verdict(plan.serial, tuple(CLIENTS), ())
    assert all(federation.unmask(client, verdict) for client in CLIENTS)
    with pytest.raises(Refused, match="was unmasked before"):
        federation.unmask(0, verdict)
    with pytest.raises(Refused, match="without new keys"):
        federation.mask(0, plan, terms, sent, np.zeros(50, np.float32))


def test_there_is_no_way_back_to_an_epoch_before(federation: Federation) -> None:
    """Neither for sums, nor for keys: what served in it is forgotten."""
    before, early = dict(federation.introductions), ahead(federation, 2)
    federation.epoch, federation.introductions = 2, early
    federation.share(federation.plan(), CLIENTS)
    federation.epoch, federation.introductions = 1, before
    with pytest.raises(Refused, match="a sum of epoch 1, but this client's key is of epoch 2"):
        federation.share(federation.plan(), [0])
    with pytest.raises(Refused, match="a key for epoch 1, but there was one for epoch 2 before"):
        half.introduce(federation.secrets[0], federation.member(0), 1)


def test_a_key_for_an_epoch_that_was_passed_over_is_refused(federation: Federation) -> None:
    ahead(federation, 5)
    with pytest.raises(Refused, match="a key for epoch 3, but there was one for epoch 5 before"):
        half.introduce(federation.secrets[0], federation.member(0), 3)


def test_keys_made_ahead_do_not_pile_up_and_the_latest_serve(federation: Federation) -> None:
    made = {epoch: ahead(federation, epoch) for epoch in range(2, 9)}
    assert all(list(federation.secrets[client].spares) == [7, 8] for client in CLIENTS)
    for epoch in (3, 6):
        federation.epoch, federation.introductions = epoch, made[epoch]
        with pytest.raises(Refused, match=f"a sum of epoch {epoch}"):
            federation.share(federation.plan(), [0])
    federation.epoch, federation.introductions = 7, made[7]
    values = {client: np.full(50, client / 8, np.float32) for client in CLIENTS}
    found, _ = sum_securely(federation, values, dict.fromkeys(CLIENTS, 1.0))
    assert np.allclose(found, sum(range(5)) / 8, atol=1e-6)


def test_clients_that_were_led_into_different_epochs_open_nothing_of_each_other(
    federation: Federation,
) -> None:
    """What those of one epoch have sealed, those of the other cannot read: there is no vector, and no sum."""
    before, early = dict(federation.introductions), ahead(federation, 2)
    first = federation.plan()
    others = federation.share(first, [3, 4])
    federation.epoch, federation.introductions = 2, early
    plan = replace(first, epoch=2)
    sent = {**federation.share(plan, [0, 1, 2]), **others}
    with pytest.raises(Refused, match="not encrypted for this round"):
        federation.mask(0, plan, federation.terms(sent), sent, np.ones(50, np.float32))
    assert before[3] != early[3]
