"""Correct a device's time model from the round times that it really takes: a wrong profile mends itself.

Each part of T, the constant and every layer, gets a factor. Masks change seldom, so many rounds look alike and
cannot tell the parts apart: what they do not tell stays at the profile, by a least-squares pull towards one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunefl.core.masks import Counts
from prunefl.core.time_model import DeviceTime, KinkedTime, Line, LinearTime

FORGET = 0.998
"""Weight of the past at each new round: devices warm up and links change, but over many masks, not one."""
PULL = 0.01
"""How strongly factors are held at one, in units of one round's evidence."""


@dataclass(frozen=True)
class Evidence:
    """What the rounds so far have told of one device; plain numbers, so that a checkpoint can hold it.

    Attributes:
        gram: Σ of products of the parts' predicted shares of a round, (parts, parts).
        moment: Σ of these shares, (parts,).
    """

    gram: tuple[tuple[float, ...], ...] = ()
    moment: tuple[float, ...] = ()
    rounds: int = 0


def observe(evidence: Evidence, profile: DeviceTime, counts: Counts, seconds: float) -> Evidence:
    """Return the evidence after one more round with so many live weights took `seconds`."""
    if not 0.0 < seconds < float("inf"):
        raise ValueError(f"seconds={seconds}, must be finite and > 0")
    # relative to the observed time: the slow rounds of a large model must not outweigh the many quick ones
    shares = _parts(profile, counts) / seconds
    gram, moment = np.outer(shares, shares), shares
    if evidence.rounds:
        gram, moment = gram + FORGET * np.array(evidence.gram), moment + FORGET * np.array(evidence.moment)
    return Evidence(tuple(map(tuple, gram.tolist())), tuple(moment.tolist()), evidence.rounds + 1)


def fitted(evidence: Evidence, profile: DeviceTime) -> DeviceTime:
    """Return the corrected time model; without an observation it is the profile."""
    if evidence.rounds == 0:
        return profile
    factors = _factors(np.array(evidence.gram), np.array(evidence.moment)).tolist()
    constant = profile.constant * factors[0]
    if isinstance(profile, LinearTime):
        slopes = zip(profile.per_weight.items(), factors[1:], strict=True)
        return LinearTime(constant, {name: slope * factor for (name, slope), factor in slopes})
    layers = zip(profile.ways.items(), factors[1:], strict=True)
    return KinkedTime(constant, {n: tuple(_scaled(line, f) for line in lines) for (n, lines), f in layers})


def _scaled(line: Line, factor: float) -> Line:
    return line[0] * factor, line[1] * factor


def _parts(profile: DeviceTime, counts: Counts) -> NDArray[np.float64]:
    """Return the seconds of the constant and of each layer."""
    names = profile.per_weight if isinstance(profile, LinearTime) else profile.ways
    layers = [min(a + b * counts[name] for a, b in profile.lines(name)) for name in names]
    return np.array([profile.constant, *layers])


def _factors(gram: NDArray[np.float64], moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors that explain the rounds best, none of them negative."""
    pull = PULL * np.eye(len(moment))
    free = np.ones(len(moment), dtype=bool)
    while True:
        factors = np.zeros(len(moment))
        block = np.ix_(free, free)
        factors[free] = np.linalg.solve((gram + pull)[block], (moment + PULL)[free])
        if (factors >= 0).all():
            return factors
        free &= factors >= 0
