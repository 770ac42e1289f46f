"""What a secure sum with noise is of: clipped changes and what noise covers beside them, and no other number."""

import math
from collections.abc import Mapping

import numpy as np

from prunefl.config import Config
from prunefl.core import noise
from prunefl.core.ledger import BIT_NOISE
from prunefl.core.network import Template
from prunefl.core.randomness import Normal
from prunefl.core.state import Arrays, SparseState
from prunefl.methods import Update, Work
from prunefl.privacy.errors import Refused
from prunefl.privacy.fixed_point import Floats, Layout, Segment, Values, Words
from prunefl.privacy.graph import count_needed
from prunefl.privacy.noise_shares import COARSEST, Noising, encode_noised
from prunefl.rounds.messages import Order
from prunefl.rounds.private import WITHIN, hold_positive, is_private
from prunefl.rounds.vectors import STATISTIC, WEIGHTS, refuse_misfit
from prunefl.system.errors import PruneFLError


def agree_on_noise(config: Config, clip: float, asked: int) -> Noising | None:
    """Return how a sum of so many clients is noised: enough with as few as it may have; None if it is not."""
    if not is_private(config):
        return None
    return Noising(config.privacy.noise, clip, count_needed(asked, config.privacy.threshold))


def refuse_small_noise(config: Config, asked: int) -> None:
    """Refuse noise of which whole numbers of 32 bits keep nothing, before a run begins."""
    noising = agree_on_noise(config, 1.0, asked)
    if noising is None:
        return
    step = Segment("", 1, noising.find_range(1.0, noising.noise)).step(asked)
    if noising.share(noising.noise) < COARSEST * step:
        least = COARSEST * step * noising.noise / noising.share(noising.noise)
        raise PruneFLError(
            f"privacy.noise={noising.noise:g}, must be >= {least:.1g} with privacy.secure=true: the sum of {asked} "
            "clients has 32 bits for each value"
        )


def refuse_other_noise(config: Config, order: Order, noising: Noising | None) -> None:
    """Refuse, at a client, a sum whose noise is another than was agreed when it joined."""
    wanted, given = config.privacy.noise, noising.noise if noising else 0.0
    if wanted != given:
        raise Refused(f"a sum with noise of {given:g}, but privacy.noise={wanted:g}")
    if noising and noising.clip != order.clip:
        raise Refused(f"noise for a clip of {noising.clip:g}, but changes are clipped to {order.clip:g}")


def lay_out_noised(
    start: SparseState, template: Template, work: Work, noising: Noising, quantile: bool
) -> tuple[Segment, ...]:
    """Return the segments of a vector with noise: changes, statistic, and whether the change was within the clip."""
    sizes = {WEIGHTS + name: value.size for name, value in start.values.items()}
    if work.report:
        sizes |= {STATISTIC + name: math.prod(template.shape_of[name]) for name in template.parameters}
    if quantile:
        sizes[WITHIN] = 1
    # by name: noise is drawn in this order, and a simulation that goes on has the same on the same numbers
    return tuple(
        Segment(name, size, noising.find_range(_find_bound(name, noising), find_sigma(name, noising)))
        for name, size in sorted(sizes.items())
    )


def _find_bound(name: str, noising: Noising) -> float:
    """Return the largest norm of what one client says in a segment."""
    return noising.clip if name.startswith(WEIGHTS) else 1.0


def find_sigma(name: str, noising: Noising) -> float:
    """Return the standard deviation that is promised for the sum of a segment."""
    return noising.noise * _find_bound(name, noising) * (BIT_NOISE if name == WITHIN else 1.0)


def make_noised_vector(
    update: Update, received: SparseState, layout: Layout, clip: float
) -> dict[str, Values]:
    """Return a client's update, as privacy made it, by segment.

    Clipped once more, in float64: the promise must not depend on rounding on the way, and the server cannot.
    """
    change, statistic = noise.change_of(update.state, received), update.statistic or {}
    vector = {WEIGHTS + name: part for name, part in _clip(change, clip).items()}
    vector |= {STATISTIC + name: part for name, part in _clip(statistic, 1.0).items()}
    vector |= {name: np.array([number], np.float64) for name, number in update.numbers.items()}
    refuse_misfit(vector, layout)
    return vector


def _clip(arrays: Arrays, limit: float) -> dict[str, Values]:
    share = noise.clip_share(noise.measure(arrays), limit)
    return {name: np.multiply(array, share, dtype=np.float64) for name, array in arrays.items()}


def noise_vector(vector: Mapping[str, Values], noising: Noising, layout: Layout, normal: Normal) -> Words:
    """Return the vector with this client's share of the noise."""
    sigmas = {one.name: noising.share(find_sigma(one.name, noising)) for one in layout.segments}
    return encode_noised(vector, sigmas, layout, normal)


def read_noised(
    found: Mapping[str, Floats], start: SparseState, template: Template, report: str, cohort: int
) -> tuple[SparseState, Arrays | None]:
    """Return the model moved by the noised mean, and the noised statistic.

    Args:
        cohort: how many clients a sum is divided by, whoever is in it.
    """
    mean = noise.mean_arrays(found, cohort)
    change = {name: mean[WEIGHTS + name].reshape(value.shape) for name, value in start.values.items()}
    statistic = {
        name.removeprefix(STATISTIC): part.reshape(template.shape_of[name.removeprefix(STATISTIC)])
        for name, part in mean.items()
        if name.startswith(STATISTIC)
    }
    if report == "importance":
        statistic = {name: np.maximum(part, np.float32(0)) for name, part in statistic.items()}
    return hold_positive(noise.move(start, change)), statistic or None
