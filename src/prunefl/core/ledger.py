"""What a run has told of its clients so far, release by release: all that epsilon is computed from."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

BIT_NOISE = 2.5
"""Noise on how many changes were within the clip, in multiples of privacy.noise: 4 % more is told (1/σ²)."""

SENSITIVITY = {"change": 2.0, "gradient": 2.0, "importance": math.sqrt(2.0), "within": 1.0}
"""How far a sum of vectors of norm <= 1 moves when one client's data is replaced by any other (docs/privacy.md).

Two vectors of norm 1 can point apart: 2; two without negative numbers are a right angle apart at most: √2; 0 or 1: 1.
"""


@dataclass(frozen=True, order=True)
class Release:
    """So many rounds alike: `cohort` of `clients` drawn without replacement, with noise of `multiplier` times the
    sensitivity of all that a round tells."""

    clients: int
    cohort: int
    multiplier: float
    rounds: int = 1


@dataclass(frozen=True)
class Ledger:
    """The releases of a run, those alike together; in which order they came does not matter."""

    releases: tuple[Release, ...] = ()

    def plus(self, releases: "Iterable[Release]") -> "Ledger":
        """Return the ledger with these in it."""
        counts: dict[Release, int] = {}
        for release in (*self.releases, *releases):
            alike = replace(release, rounds=1)
            counts[alike] = counts.get(alike, 0) + release.rounds
        return Ledger(tuple(replace(alike, rounds=count) for alike, count in sorted(counts.items())))


def multiplier_of(noise: float, told: Iterable[str]) -> float:
    """Return noise over sensitivity of one Gaussian that tells as much as all these together.

    Args:
        noise: privacy.noise.
        told: what a round tells: keys of SENSITIVITY.
    """
    scales = {"within": BIT_NOISE}
    return 1 / math.sqrt(sum((SENSITIVITY[one] / (noise * scales.get(one, 1.0))) ** 2 for one in told))
