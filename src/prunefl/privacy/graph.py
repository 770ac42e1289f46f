"""Who masks with whom, and how many must remain: decided by each client for itself, from what all are told."""

import hashlib
import math
from collections.abc import Mapping, Set
from functools import lru_cache

LEAST = 3
"""Of two, each knows the other's update from the sum."""


def count_needed(cohort: int, threshold: float) -> int:
    """Return how many of a cohort must remain for a sum to be unmasked.

    A majority so clear that the server cannot have enough shares of both secrets of a client, whatever different
    things it tells the others: with `count_shares` of the n - 1 others each, 2 (needed - 1) > n - 1.
    """
    # 2/3 of 3 is a little more than 2
    return max(LEAST, math.ceil(threshold * cohort - 1e-9), (cohort + 1) // 2 + 1)


def count_shares(cohort: int, neighbours: int, threshold: float) -> int:
    """Return how many shares bring a secret back: more than half, and no more than are sure to be there."""
    if is_complete(cohort, neighbours):
        return count_needed(cohort, threshold) - 1
    return neighbours // 2 + 1


def is_complete(cohort: int, neighbours: int) -> bool:
    """Return whether everybody masks with everybody."""
    return not 0 < neighbours < cohort - 1


@lru_cache(maxsize=8)
def draw_graph(cohort: tuple[int, ...], neighbours: int, seed: bytes) -> Mapping[int, frozenset[int]]:
    """Return with whom each client masks.

    On a ring that `seed` shuffles, half of its neighbours stand on either side of each: a k-regular graph that cannot
    be cut by fewer than k clients, and that nobody chooses.
    """
    if is_complete(len(cohort), neighbours):
        return {client: frozenset(cohort) - {client} for client in cohort}
    ring = sorted(cohort, key=lambda one: hashlib.sha256(seed + b"%d" % one).digest())
    steps = [step for step in range(-(neighbours // 2), neighbours // 2 + 1) if step]
    return {
        client: frozenset(ring[(place + step) % len(ring)] for step in steps)
        for place, client in enumerate(ring)
    }


def find_lonely(alive: Set[int], drawn: Mapping[int, Set[int]], shares: int) -> list[int]:
    """Return who of the living has fewer than `shares` living neighbours.

    Its secrets could not be brought back; and of one whose neighbours are all said to be dead, the server would see
    what it alone has sent.
    """
    return [client for client in sorted(alive) if len(drawn[client] & alive) < shares]
