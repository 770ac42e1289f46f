"""Epsilon as reported against computations of its own: closed forms, and a theorem coded once more in exact numbers."""

import itertools
import math
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunefl.core.ledger import BIT_NOISE, Ledger, Release, multiplier_of
from prunefl.rounds.accounting import ORDERS, epsilon_of, find_noise

mpmath = pytest.importorskip("mpmath")
dp_accounting = pytest.importorskip("dp_accounting")


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return delta of a Gaussian whose means are mu standard deviations apart (Balle and Wang 2018, Theorem 8)."""
    with mpmath.workdps(60):
        normal = mpmath.ncdf
        apart, middle = mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mpmath.mpf(mu)
        return float(normal(apart - middle) - mpmath.exp(epsilon) * normal(-apart - middle))


def everybody_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which delta is met, by halving."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(mu, middle) <= delta else (middle, high)
    return high


def sampled_renyi(order: int, share: float, multiplier: float) -> "mpmath.mpf":
    """Return the Rényi divergence of a Gaussian on a sample without replacement (Wang, Balle, Kasiviswanathan 2019).

    Theorem 9 with the refinement of Theorem 27 for j > 2, in 200 digits: differences of huge numbers, as they are.
    """

    def gaussian(j: int) -> "mpmath.mpf":
        return mpmath.mpf(j) / (2 * mpmath.mpf(multiplier) ** 2)

    def moment(ell: int) -> "mpmath.mpf":
        terms = [
            (-1) ** (ell - i) * mpmath.binomial(ell, i) * mpmath.exp((i - 1) * gaussian(i) if i else 0)
            for i in range(ell + 1)
        ]
        return abs(mpmath.fsum(terms))

    total = mpmath.mpf(1)
    for j in range(2, order + 1):
        if j == 2:
            worst = min(4 * (mpmath.exp(gaussian(2)) - 1), 2 * mpmath.exp(gaussian(2)))
        else:
            refined = 4 * mpmath.sqrt(moment(2 * (j // 2)) * moment(2 * -(-j // 2)))
            worst = min(refined, 2 * mpmath.exp((j - 1) * gaussian(j)))
        total += mpmath.mpf(share) ** j * mpmath.binomial(order, j) * worst
    return mpmath.log(total) / (order - 1)


def sampled_epsilon(ledger: Ledger, delta: float, orders: range) -> float:
    """Return the smallest epsilon over the orders, by Canonne, Kamath and Steinke 2020, Proposition 12."""
    found = []
    with mpmath.workdps(200):
        for order in orders:
            total = mpmath.fsum(
                r.rounds * sampled_renyi(order, r.cohort / r.clients, r.multiplier) for r in ledger.releases
            )
            extra = mpmath.log(1 - mpmath.mpf(1) / order) - mpmath.log(delta * order) / (order - 1)
            found.append(total + extra)
        return float(min(found))


@given(
    noise=st.floats(0.3, 50),
    rounds=st.integers(1, 1000),
    reports=st.integers(0, 50),
    delta=st.sampled_from([1e-3, 1e-5, 1e-8]),
)
@settings(max_examples=60, deadline=None)
def test_with_everybody_taking_part_it_is_that_of_one_gaussian_in_closed_form(noise, rounds, reports, delta):
    plain, reporting = multiplier_of(noise, ["change"]), multiplier_of(noise, ["change", "importance"])
    ledger = Ledger().plus([Release(20, 20, plain, rounds), Release(20, 20, reporting, reports or 1)])
    # σ = noise · clip; replaced, a change moves by 2 · clip and an importance of norm 1 by √2
    per_round, per_report = 2 / noise, math.hypot(2 / noise, math.sqrt(2) / noise)
    mu = math.sqrt(rounds * per_round**2 + (reports or 1) * per_report**2)
    epsilon = epsilon_of(ledger, delta)
    assert epsilon >= 0
    if epsilon == 0:
        assert gaussian_delta(mu, 0.0) <= delta * (1 + 1e-6)
    else:
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("noise", [4.0, 8.0, 20.0])
def test_and_that_of_the_library_s_privacy_loss_distribution(noise):
    # which doubles by itself, for neighbours that are replaced, what one client can move: noise in multiples of clip
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = dp_accounting.pld.PLDAccountant(neighboring_relation=relation)
    accountant.compose(dp_accounting.GaussianDpEvent(noise), 20)
    ledger = Ledger((Release(20, 20, multiplier_of(noise, ["change"]), 20),))
    # a distribution on a grid is never below the exact one
    exact, on_a_grid = epsilon_of(ledger, 1e-5), accountant.get_epsilon(1e-5)
    assert exact <= on_a_grid + 1e-9
    assert exact == pytest.approx(on_a_grid, rel=1e-3)


@pytest.mark.parametrize(
    ("clients", "cohort", "noise", "rounds", "delta"),
    [
        (193, 10, 2.0, 300, 1e-3),
        (193, 10, 4.0, 300, 1e-5),
        (1000, 50, 3.0, 1000, 1e-6),
        (40, 20, 20.0, 5, 1e-3),
    ],
)
def test_with_cohorts_it_is_that_of_the_theorem_for_samples_without_replacement(
    clients, cohort, noise, rounds, delta
):
    ledger = Ledger().plus(
        [
            Release(clients, cohort, multiplier_of(noise, ["change"]), rounds - rounds // 20),
            Release(clients, cohort, multiplier_of(noise, ["change", "importance"]), max(1, rounds // 20)),
        ]
    )
    assert set(range(2, 40)) <= set(ORDERS)
    mu = math.sqrt(sum(release.rounds / release.multiplier**2 for release in ledger.releases))
    # of two bounds the smaller one: that everybody took part is the better one where a cohort is half of all
    expected = min(sampled_epsilon(ledger, delta, range(2, 40)), everybody_epsilon(mu, delta))
    assert epsilon_of(ledger, delta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", [0.05, 0.5, 1.0, 3.0, 30.0])
def test_a_hidden_draw_never_costs(noise):
    multiplier = multiplier_of(noise, ["change"])
    drawn, everybody = (Ledger((Release(193, cohort, multiplier, 50),)) for cohort in (10, 193))
    assert epsilon_of(drawn, 1e-4) <= epsilon_of(everybody, 1e-4)


def test_it_grows_with_every_round_and_begins_at_nothing():
    ledger, seen = Ledger(), [epsilon_of(Ledger(), 1e-5)]
    for _ in range(5):
        ledger = ledger.plus([Release(100, 10, 1.0)])
        seen.append(epsilon_of(ledger, 1e-5))
    assert seen[0] == 0
    assert all(before < after for before, after in itertools.pairwise(seen))


def test_the_noise_that_is_found_keeps_the_budget_and_little_less_does_not():
    ledger = Ledger((Release(193, 10, multiplier_of(1.0, ["change"]), 100),))
    factor = find_noise(ledger, 1e-3, 8.0)
    enough, too_little = (
        Ledger((Release(193, 10, multiplier_of(1.0, ["change"]) * f, 100),)) for f in (factor, factor / 1.01)
    )
    assert epsilon_of(enough, 1e-3) <= 8.0 < epsilon_of(too_little, 1e-3)


def test_a_word_about_the_clip_adds_a_twenty_fifth_to_what_is_told():
    alone, told = multiplier_of(1.0, ["change"]), multiplier_of(1.0, ["change", "within"])
    assert told**-2 == pytest.approx(2.0**2 + 1 / BIT_NOISE**2)
    assert alone**2 / told**2 == pytest.approx(1.04)


def test_the_closed_form_of_the_test_is_the_textbook_s():
    # mu = 1, epsilon = 1: Φ(-1/2) - e·Φ(-3/2)
    normal = NormalDist()
    assert gaussian_delta(1.0, 1.0) == pytest.approx(normal.cdf(-0.5) - math.e * normal.cdf(-1.5), abs=1e-12)
