"""From a ledger to epsilon, by Google's dp-accounting; neighbours differ in all the data of one client."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunefl.core.ledger import Ledger, Release
from prunefl.system.errors import PruneFLError

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256)
"""Rényi orders at which sampled rounds are composed; beyond 256 the bound is a coarser one."""


def epsilon_of(ledger: Ledger, delta: float) -> float:
    """Return epsilon of all that a run has released: replace one client's data by any other, and delta holds.

    Gaussians with everybody taking part compose to one Gaussian, whose privacy loss distribution is known exactly. With
    cohorts drawn without replacement, Rényi divergences add up (Wang, Balle, Kasiviswanathan 2019); that everybody took
    part in every round is true as a bound there, too, and the smaller one counts.
    """
    if not ledger.releases:
        return 0.0
    everybody = bound_epsilon(ledger, delta)
    if all(release.cohort == release.clients for release in ledger.releases):
        return everybody
    return min(everybody, _sampled_epsilon(ledger, delta))


def find_noise(ledger: Ledger, delta: float, epsilon: float) -> float:
    """Return by which factor the noise of all these releases must grow, or may shrink, to keep within epsilon."""
    low, high = 1e-6, 1e6
    if epsilon_of(_scaled(ledger, high), delta) > epsilon:
        raise PruneFLError(f"privacy.epsilon={epsilon:g}: no noise keeps it")
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if epsilon_of(_scaled(ledger, middle), delta) > epsilon:
            low = middle
        else:
            high = middle
    return high


def _scaled(ledger: Ledger, factor: float) -> Ledger:
    return Ledger(
        tuple(Release(r.clients, r.cohort, r.multiplier * factor, r.rounds) for r in ledger.releases)
    )


def bound_epsilon(ledger: Ledger, delta: float) -> float:
    """Return epsilon of a client that took part in every round, and of whom that is known."""
    precision = sum(release.rounds / release.multiplier**2 for release in ledger.releases)
    return float(_library().get_epsilon_gaussian(1 / math.sqrt(precision), delta))


def _sampled_epsilon(ledger: Ledger, delta: float) -> float:
    total = sum(
        release.rounds * _renyi(release.clients, release.cohort, release.multiplier)
        for release in ledger.releases
    )
    return float(_library().rdp.compute_epsilon(ORDERS, total, delta)[0])


@lru_cache(256)
def _renyi(clients: int, cohort: int, multiplier: float) -> NDArray[np.float64]:
    """Return the Rényi divergence of one round at each of ORDERS.

    The library does not double what one client can move here, unlike in its privacy loss distributions: a sample's
    Gaussian is meant by noise over sensitivity, which is what `multiplier` is.
    """
    library = _library()
    sampled = library.SampledWithoutReplacementDpEvent(clients, cohort, library.GaussianDpEvent(multiplier))
    accountant = library.rdp.RdpAccountant(
        ORDERS, neighboring_relation=library.NeighboringRelation.REPLACE_ONE
    )
    found: NDArray[np.float64] = accountant.compose(sampled).rdp
    return found


def _library() -> Any:
    try:
        import dp_accounting
    except ModuleNotFoundError:
        raise PruneFLError(
            "privacy.noise: dp-accounting is not installed, which counts epsilon: pip install 'prunefl[privacy]'"
        ) from None
    return dp_accounting
