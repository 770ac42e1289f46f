"""Noise in shares: each client adds so much that the sum of those who must remain has what was promised."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import WIDE, Floats, Layout, Segment, Values, Words

FINEST, COARSEST = 2.0**40, 64.0
"""A client's noise in steps of the grid, at most and at least; docs/privacy.md says why it may not be coarser."""

REACH = 10.0
"""Standard deviations of a sum's noise that its range has room for."""


@dataclass(frozen=True)
class Noising:
    """What is agreed on the noise of a sum. All are told the same: masks depend on it.

    Attributes:
        noise: privacy.noise.
        clip: largest norm of a client's change.
        enough: how many clients' noise together is what is promised; no sum of fewer is unmasked.
    """

    noise: float
    clip: float
    enough: int

    def describe(self) -> list[float | int]:
        """Return it as JSON."""
        return [self.noise, self.clip, self.enough]

    def share(self, sigma: float) -> float:
        """Return the standard deviation of one client's noise, where the sum's is to be `sigma` at least."""
        return sigma / math.sqrt(self.enough)

    def find_range(self, largest: float, sigma: float) -> float:
        """Return the range of a value of at most `largest` at each client: the sum of all has room for its noise."""
        return largest + REACH * sigma / self.enough


def encode_noised(
    values: Mapping[str, Values],
    sigmas: Mapping[str, float],
    layout: Layout,
    normal: Callable[[int], NDArray[np.float64]],
) -> Words:
    """Return each value with noise as whole numbers modulo 2^32.

    Values are rounded towards zero, so that no norm grows. Noise is rounded by itself, so that it does not depend on
    them, and nothing of it is cut off: what is beyond the range goes round, which tells nothing.

    Args:
        sigmas: standard deviation of this client's noise, by segment.
        normal: draws numbers of mean 0 and variance 1.
    """
    parts = [np.zeros(0, np.uint32)]
    for segment in layout.segments:
        step, sigma = segment.step(layout.clients), sigmas[segment.name]
        flat = np.asarray(values[segment.name], np.float64).reshape(-1)
        _refuse_misfit(segment, step, sigma, flat)
        drawn = normal(segment.size) * (sigma / step)
        whole = np.trunc(flat / step) + np.rint(drawn, out=drawn)
        parts.append(whole.astype(np.int64).astype(np.uint32))
    return Words(np.concatenate(parts), np.zeros(0, np.uint16))


def _refuse_misfit(segment: Segment, step: float, sigma: float, values: Floats) -> None:
    if segment.bits != WIDE or not COARSEST * step <= sigma <= FINEST * step:
        raise Refused(f"a grid of {step:g} for noise of {sigma:g}: what is rounded away would hide nothing")
    if values.size and float(np.abs(values).max()) > segment.range:
        raise Refused(f"a range of {segment.range:g}, which does not hold what may be sent")
