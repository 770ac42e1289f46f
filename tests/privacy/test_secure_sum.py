"""The sum that the server unmasks is the sum of what the living clients hold, and of fewer there is none."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl.privacy.errors import Refused, TooFew
from prunefl.privacy.fixed_point import Segment, largest_error
from prunefl.privacy.graph import count_needed, count_shares, draw_graph
from secure_federation import Federation, sum_securely

STEPS = ("share", "mask", "unmask")
SIZE = 40


@st.composite
def rounds(draw: st.DrawFn, most: int):
    count = draw(st.integers(3, most))
    numbers = draw(st.permutations(range(2 * count)))[:count]
    # as many as may be gone without the threshold being missed, and no more than three in ten
    spare = min(count - count_needed(count, 2 / 3), math.floor(0.3 * count))
    lost = draw(st.integers(0, max(0, spare)))
    gone = {client: draw(st.sampled_from(STEPS)) for client in numbers[:lost]}
    bits = draw(st.sampled_from([32, 16]))
    return sorted(numbers), gone, bits, draw(st.integers(0, 2**32 - 1))


def check_sum(clients, gone, bits, seed, neighbours=0):
    random = np.random.default_rng(seed)
    segment = Segment("values", SIZE, 4.0, bits)
    federation = Federation(clients, segments=(segment,), neighbours=neighbours)
    federation.introduce()
    values = {client: random.uniform(-4, 4, SIZE).astype(np.float32) for client in clients}
    weights = {client: float(random.uniform(0.01, 1)) for client in clients}
    found, verdict = sum_securely(federation, values, weights, gone)
    assert set(verdict.alive) == {c for c in clients if gone.get(c) not in ("share", "mask")}
    wanted = sum(weights[c] * values[c].astype(np.float64) for c in verdict.alive)
    bound = largest_error(segment, len(clients), len(verdict.alive))
    assert np.abs(found - wanted).max() <= bound * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(rounds(16))
def test_the_sum_is_the_weighted_sum_of_the_living_within_the_step_of_the_grid(drawn) -> None:
    check_sum(*drawn)


@settings(deadline=None, max_examples=8)
@given(rounds(100))
def test_the_same_of_up_to_a_hundred_that_all_mask_with_each_other(drawn) -> None:
    check_sum(*drawn)


def test_a_hundred_clients_that_all_mask_with_each_other_lose_ten_at_each_step(seed: int) -> None:
    gone = {client: STEPS[client % 3] for client in range(7, 37)}
    check_sum(list(range(100)), gone, 32, seed)


@settings(deadline=None, max_examples=6)
@given(rounds(100), st.sampled_from([16, 20, 24]))
def test_on_a_graph_the_sum_is_right_or_there_is_none(drawn, neighbours: int) -> None:
    clients, gone, bits, seed = drawn
    try:
        check_sum(clients, gone, bits, seed, neighbours)
    except TooFew:
        # chance has left a client with too few neighbours; never a wrong sum
        assert gone


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [3, 4, 7, 10])
def test_with_one_client_too_few_there_is_no_sum_and_a_repeated_round_has_one(
    step: str, count: int, rng
) -> None:
    federation = Federation(range(count))
    federation.introduce()
    values = {client: rng.uniform(-4, 4, 50).astype(np.float32) for client in range(count)}
    weights = dict.fromkeys(range(count), 1.0)
    lost = count - count_needed(count, 2 / 3) + 1
    with pytest.raises(TooFew):
        sum_securely(federation, values, weights, dict.fromkeys(range(lost), step))
    again, _ = sum_securely(federation, values, weights)
    assert np.allclose(again, sum(values.values()), atol=1e-5)


def test_enough_shares_of_both_secrets_of_a_client_are_never_there(rng) -> None:
    for cohort in range(3, 300):
        for threshold in (0.51, 0.6, 2 / 3, 0.9, 1.0):
            needed, shares = count_needed(cohort, threshold), count_shares(cohort, 0, threshold)
            assert 3 <= needed <= cohort
            assert 2 * shares > cohort - 1
            # those who remain, without the one whose secret it is
            assert shares <= needed - 1


@settings(deadline=None)
@given(st.integers(6, 200), st.sampled_from([4, 6, 10, 20]), st.binary(min_size=32, max_size=32))
def test_a_graph_is_regular_and_goes_both_ways(cohort: int, neighbours: int, seed: bytes) -> None:
    drawn = draw_graph(tuple(range(cohort)), neighbours, seed)
    assert {len(near) for near in drawn.values()} == {min(neighbours, cohort - 1)}
    assert all(client in drawn[other] for client, near in drawn.items() for other in near)
    assert all(client not in near for client, near in drawn.items())


def test_a_client_does_not_mask_where_the_terms_leave_it_with_too_few(rng) -> None:
    federation = Federation(range(10))
    federation.introduce()
    plan = federation.plan()
    sent = federation.share(plan, range(10))
    few = {client: sent[client] for client in range(6)}
    with pytest.raises(Refused, match="insists on 7"):
        federation.mask(0, plan, federation.terms(few), few, rng.uniform(-1, 1, 50))
