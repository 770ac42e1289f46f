"""Correct a device's time model from the round times that it really takes: a wrong profile mends itself.

Each part of T, the constant and every layer, gets a factor. Masks change seldom, so many rounds look alike and
cannot tell the parts apart: what they do not tell stays at the profile, by a least-squares pull towards one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prunefl.time_model import Counts, DeviceTime, KinkedTime, Line, LinearTime

FORGET = 0.998
"""Weight of the past at each new round: devices warm up and links change, but over many masks, not one."""
PULL = 0.01
"""How strongly factors are held at one, in units of one round's evidence."""


@dataclass(frozen=True)
class Refit:
    """What the rounds so far have told of one device; plain numbers, so that a checkpoint can hold it.

    Attributes:
        prior: the time model as profiled.
        gram: Σ of products of the parts' predicted shares of a round, (parts, parts).
        moment: Σ of these shares, (parts,).
    """

    prior: DeviceTime
    names: tuple[str, ...]
    gram: tuple[tuple[float, ...], ...]
    moment: tuple[float, ...]
    rounds: int = 0


def begin(prior: DeviceTime, names: tuple[str, ...]) -> Refit:
    """Return the state before the first observed round."""
    parts = len(names) + 1
    return Refit(prior, names, ((0.0,) * parts,) * parts, (0.0,) * parts)


def observe(state: Refit, counts: Counts, seconds: float) -> Refit:
    """Return the state after one more round of this device with so many live weights took `seconds`."""
    if not 0.0 < seconds < float("inf"):
        raise ValueError(f"seconds={seconds}, must be finite and > 0")
    # relative to the observed time: the slow rounds of a large model must not outweigh the many quick ones
    shares = _parts(state.prior, state.names, counts) / seconds
    gram = FORGET * np.array(state.gram) + np.outer(shares, shares)
    moment = FORGET * np.array(state.moment) + shares
    return replace(
        state,
        gram=tuple(map(tuple, gram.tolist())),
        moment=tuple(moment.tolist()),
        rounds=state.rounds + 1,
    )


def fitted(state: Refit) -> DeviceTime:
    """Return the corrected time model; without an observation it is the profile."""
    if state.rounds == 0:
        return state.prior
    factors = _factors(np.array(state.gram), np.array(state.moment))
    scale: Mapping[str, float] = dict(zip(state.names, factors[1:].tolist(), strict=True))
    constant = float(state.prior.constant * factors[0])
    if isinstance(state.prior, LinearTime):
        return LinearTime(constant, {n: t * scale[n] for n, t in state.prior.per_weight.items()})
    ways = {n: tuple(_scaled(line, scale[n]) for line in lines) for n, lines in state.prior.ways.items()}
    return KinkedTime(constant, ways)


def _scaled(line: Line, factor: float) -> Line:
    return line[0] * factor, line[1] * factor


def _parts(prior: DeviceTime, names: tuple[str, ...], counts: Counts) -> NDArray[np.float64]:
    """Return the seconds of the constant and of each layer."""
    layers = [min(a + b * counts[name] for a, b in prior.lines(name)) for name in names]
    return np.array([prior.constant, *layers])


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
