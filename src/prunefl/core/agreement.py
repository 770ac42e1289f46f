"""Who pulls against the others: the directions of clients' changes, compared two by two.

Training at clients with unequal samples pulls apart, so that an honest change may well point away from others. One that
is turned round does more: it points away from changes that agree with each other, all the more when it has done harm.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from prunefl.core.outliers import ENOUGH, measure_change
from prunefl.core.state import SparseState

REACH = 10
"""In large cohorts each client is compared with so many before and after it: the time grows as the cohort does."""

FORGETTING = 0.2
"""Share of the last round in what is remembered of a client."""

Cosines = Mapping[tuple[int, int], float]
"""Of the changes of two clients, the smaller number first."""


def compare_changes(states: Mapping[int, SparseState], norms: Mapping[int, float]) -> Cosines:
    """Return the cosines of changes from one start, all under the same masks; 0 where one has not moved.

    Args:
        norms: of each client's change.
    """
    clients = sorted(states)
    found = {}
    for a, b in _choose_pairs(clients):
        product = norms[a] * norms[b]
        # <x, y> = (|x|² + |y|² - |x - y|²) / 2, and x - y is the distance of the two states
        apart = measure_change(states[a], states[b])
        inner = (norms[a] ** 2 + norms[b] ** 2 - apart**2) / 2
        found[a, b] = min(1.0, max(-1.0, inner / product)) if product else 0.0
    return found


def _choose_pairs(clients: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs of few clients; of many, each with its neighbours in a ring."""
    count = len(clients)
    return [
        (clients[a], clients[b])
        for a in range(count)
        for b in range(a + 1, count)
        if b - a <= REACH or a + count - b <= REACH
    ]


def measure_opposition(cosines: Cosines) -> dict[int, float]:
    """Return how far each client's change points away from the others': -1 to 1, above 0 for one that opposes them.

    It is the median of its cosines, turned round, or how much lower that is than the median of the others among
    themselves, whichever says less: clients that all pull apart oppose nobody. Fewer than three: nothing is said.
    """
    clients = sorted({client for pair in cosines for client in pair})
    if len(clients) < ENOUGH:
        return {}
    found = {}
    for client in clients:
        own = float(np.median([cosine for pair, cosine in cosines.items() if client in pair]))
        others = float(np.median([cosine for pair, cosine in cosines.items() if client not in pair]))
        # two others agree or do not by chance; of many, the median is sure
        sure = (len(clients) - 2) / (len(clients) - 1)
        found[client] = min(-own, sure * (others - own))
    return found


def remember(before: Mapping[int, float], now: Mapping[int, float]) -> dict[int, float]:
    """Return what is known of each client after a round: the recent rounds in which it took part count most."""
    known = {**before}
    for client, value in now.items():
        known[client] = (1 - FORGETTING) * known.get(client, 0.0) + FORGETTING * value
    return known
