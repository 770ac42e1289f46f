"""What one client can do to a round: changes, weights and losses are held to what is usual in its cohort.

Whoever is within the bounds is not touched: an honest cohort has the same bits as without them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunefl.core import agreement, average, outliers
from prunefl.core.state import SparseState

Bounded = Mapping[int, str]
"""Client -> what of its reply was out of bounds, and what was done about it."""

STANDS_OUT = 5.0
"""Times the usual change at which a client is named even where no bound is set."""

ABSURD = 1000.0
"""Times the usual change at which nothing of a client's update counts: no training comes that far."""

MAX_LOSS = 20.0
"""A loss counts as at most so many times the median of its round: it is only ever shown."""


@dataclass(frozen=True)
class Changes:
    """The cohort's states as they count.

    Attributes:
        words: of each client that was out of bounds.
        absurd: of each client that was so far out of them that it does not count at all.
        norms: of the changes, as they count.
        usual: norm of a usual change, as they count.
    """

    states: Mapping[int, SparseState]
    words: Bounded
    absurd: Bounded
    norms: Mapping[int, float]
    usual: float


def hold_to_usual(
    states: Mapping[int, SparseState], start: SparseState, before: float, most: float
) -> Changes:
    """Return the states; one that changed more than `most` times the usual is moved back to a usual change.

    Not to the bound itself: who stands out so far shall not weigh more than others for it. What is beyond all measure
    is left out, where others are there: scaled down it would still count as much as an honest change.

    Args:
        before: what was usual in the round before, by which a cohort of one or two is measured; 0 if there was none,
            then it is measured by the model itself.
        most: 0 for no bound.
    """
    norms = {client: outliers.measure_change(state, start) for client, state in states.items()}
    usual = outliers.find_usual(list(norms.values()), before or outliers.measure_norm(start))
    times = outliers.times_usual(norms, usual)
    judged = most and len(states) >= outliers.ENOUGH
    kept, words, absurd = dict(states), {}, {}
    for client, ratio in times.items():
        found = f"change {ratio:.3g} times the usual norm"
        if judged and (ratio > max(most, ABSURD) or norms[client] > outliers.MOST_NORM):
            absurd[client] = found if ratio else f"change of norm {norms[client]:.3g}"
            del kept[client], norms[client]
        elif most and ratio > most:
            kept[client] = average.shrink_change(states[client], start, 1 / ratio)
            words[client], norms[client] = f"{found}: scaled down to the usual", usual
        elif ratio > STANDS_OUT and not most:
            words[client] = found
    return Changes(kept, words, absurd, norms, outliers.median(list(norms.values())))


def bound_samples(counts: Sequence[int], most: float) -> list[float]:
    """Return how many samples each client counts for; at most `most` times the median, 0 for any."""
    return outliers.cap(counts, most)


def bound_losses(losses: Sequence[float]) -> list[float]:
    """Return the losses, none further from zero than a bound of the cohort."""
    return outliers.cap(losses, MAX_LOSS)


def follow_opposition(
    changes: Changes, start: SparseState, before: Mapping[int, float]
) -> Mapping[int, float]:
    """Return how much each client has lately pulled against the others, this round included.

    Args:
        before: the same after the round before.
    """
    if any(state.masks != start.masks for state in changes.states.values()):
        return before
    cosines = agreement.compare_changes(changes.states, changes.norms)
    return agreement.remember(before, agreement.measure_opposition(cosines))


def find_opponents(opposition: Mapping[int, float], most: float, members: int) -> dict[int, str]:
    """Return who has pulled against the others by more than `most`, the worst first, and why it is left out.

    Whom the others oppose is a matter of majorities: always fewer than half the members; `most` 0: nobody.
    """
    found = [client for client, value in opposition.items() if most and value > most]
    found.sort(key=lambda client: (-opposition[client], client))
    return {
        client: f"its changes pull against the others' (opposition {opposition[client]:.2f}, at most {most:g}): "
        "left out of the run"
        for client in found[: max(0, (members - 1) // 2)]
    }
