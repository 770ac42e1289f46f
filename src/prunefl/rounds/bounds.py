"""What one client can do to a round: changes, weights and losses are held to what is usual in its cohort.

Whoever is within the bounds is not touched: an honest cohort has the same bits as without them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunefl.core import average, outliers
from prunefl.core.state import SparseState

Bounded = Mapping[int, str]
"""Client -> what of its reply was out of bounds, and what was done about it."""

STANDS_OUT = 5.0
"""Times the usual change at which a client is named even where no bound is set."""

MAX_LOSS = 20.0
"""A loss counts as at most so many times the median of its round: it is only ever shown."""


@dataclass(frozen=True)
class Changes:
    """The cohort's states as they count.

    Attributes:
        words: of each client that was out of bounds.
        usual: norm of a usual change, as they count.
    """

    states: Mapping[int, SparseState]
    words: Bounded
    usual: float


def hold_to_usual(
    states: Mapping[int, SparseState], start: SparseState, before: float, most: float
) -> Changes:
    """Return the states; one that changed more than `most` times the usual is moved back to a usual change.

    Not to the bound itself: who stands out so far shall not weigh more than others for it.

    Args:
        before: what was usual in the round before, by which a cohort of one or two is measured; 0 if there was none,
            then it is measured by the model itself.
        most: 0 for no bound.
    """
    norms = {client: outliers.measure_change(state, start) for client, state in states.items()}
    usual = outliers.find_usual(list(norms.values()), before or outliers.measure_norm(start))
    times = outliers.times_usual(norms, usual)
    kept, words = dict(states), {}
    for client, ratio in times.items():
        if ratio > (most or STANDS_OUT):
            words[client] = f"change {ratio:.3g} times the usual norm"
        if most and ratio > most:
            kept[client] = average.shrink_change(states[client], start, 1 / ratio)
            words[client] += ": scaled down to the usual"
            norms[client] = usual
    return Changes(kept, words, outliers.median(list(norms.values())))


def bound_samples(counts: Sequence[int], most: float) -> list[float]:
    """Return how many samples each client counts for; at most `most` times the median, 0 for any."""
    return outliers.cap(counts, most)


def bound_losses(losses: Sequence[float]) -> list[float]:
    """Return the losses, none further from zero than a bound of the cohort."""
    return outliers.cap(losses, MAX_LOSS)
