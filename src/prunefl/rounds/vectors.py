"""What a secure sum is of: an update or scores as one vector, and the sum of many back as one update."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prunefl import wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import Array, Arrays, SparseState
from prunefl.methods import Update, Work
from prunefl.privacy.fixed_point import (
    NARROW,
    WIDE,
    Floats,
    Layout,
    Segment,
    Values,
    Words,
    count_beyond,
    decode,
)
from prunefl.rounds.scores import MeanScore, Score
from prunefl.system.errors import PruneFLError

WEIGHTS, STATISTIC = "weights/", "statistic/"
WEIGHT, LOSS, BEYOND = "weight", "loss", "beyond"

USUAL_CHANGE, USUAL_STATISTIC, MOST_LOSS = 8.0, 1.0, 4096.0
"""Ranges of a weight's change in a round and of importance, until sums say what is usual; and of a loss."""

ROOM, NARROW_ROOM = 16.0, 4.0
"""How many times the largest mean that was seen a client's own value may be, with 32 and with 16 bits."""


def lay_out_update(
    start: SparseState, template: Template, work: Work, ranges: Mapping[str, float], precision: str
) -> tuple[Segment, ...]:
    """Return the segments of an update's vector.

    Args:
        ranges: the largest magnitude in the last mean, by segment, where there was one.
        precision: wire.precision; less than float32 makes 16 bits of weights whose usual change is known.
    """
    weights = [
        _weights_segment(WEIGHTS + name, value.size, ranges, precision != "float32" and name in start.masks)
        for name, value in start.values.items()
    ]
    statistics = [
        Segment(
            STATISTIC + name, math.prod(template.shape_of[name]), _widen(ranges.get(STATISTIC + name), ROOM)
        )
        for name in (template.parameters if work.report else ())
    ]
    return (
        *weights,
        *statistics,
        Segment(WEIGHT, 1, 1.0),
        Segment(LOSS, 1, MOST_LOSS),
        Segment(BEYOND, 1, 1.0),
    )


def _weights_segment(name: str, size: int, ranges: Mapping[str, float], quantised: bool) -> Segment:
    seen = ranges.get(name)
    if quantised and seen:
        return Segment(name, size, _widen(seen, NARROW_ROOM), NARROW)
    return Segment(name, size, max(USUAL_CHANGE, _widen(seen, ROOM)), WIDE)


def _widen(seen: float | None, room: float) -> float:
    """Return a range with room for more than was seen: a power of two, so that it tells little and seldom changes."""
    return 2.0 ** math.ceil(math.log2(seen * room)) if seen else USUAL_STATISTIC


def make_update_vector(
    update: Update, received: SparseState, residual: wire.Residual | None, layout: Layout
) -> dict[str, Values]:
    """Return a client's update by segment: changes, not weights; what rounding kept back before is added."""
    if update.state.masks != received.masks or update.numbers:
        raise PruneFLError("privacy.secure=true: this method's clients send more than a sum can hold")
    kept = residual.values if residual is not None and residual.digest == received.masks.digest else {}
    vector: dict[str, Values] = {}
    for name, value in update.state.values.items():
        change = value - received.values[name]
        vector[WEIGHTS + name] = change + kept[name] if name in kept else change
    for name, value in (update.statistic or {}).items():
        vector[STATISTIC + name] = value
    if not all(np.isfinite(part).all() for part in vector.values()) or not math.isfinite(update.loss):
        raise PruneFLError(
            "training diverged at this client: its update is not finite (lower training.learning_rate)"
        )
    vector[WEIGHT], vector[LOSS] = np.ones(1), np.array([update.loss])
    refuse_misfit(vector, layout)
    known = Layout(layout.segments[:-1], layout.clients)
    vector[BEYOND] = np.array([count_beyond(vector, known) / max(1, sum(one.size for one in known.segments))])
    return vector


def refuse_misfit(vector: Mapping[str, Values], layout: Layout) -> None:
    """Refuse, at a client, a sum that is of something else than this vector."""
    wanted = {one.name: one.size for one in layout.segments if one.name != BEYOND}
    if wanted != {name: part.size for name, part in vector.items()}:
        raise PruneFLError("the sum that the server asks for does not hold what this client was to send")


def find_residual(
    vector: Mapping[str, Values], words: Words, weight: float, layout: Layout, masks: Masks
) -> wire.Residual | None:
    """Return what 16 bits kept back of a vector, to be added next time; None where there were 32."""
    narrow = {one.name for one in layout.segments if one.bits == NARROW}
    if not narrow:
        return None
    sent = decode(words, layout)
    left = {
        name.removeprefix(WEIGHTS): np.asarray(vector[name] - sent[name] / weight, np.float32)
        for name in narrow
    }
    return wire.Residual(masks.digest, left)


@dataclass(frozen=True)
class MeanUpdate:
    """What the sum of a round says: the mean update, as if one client had sent it.

    Attributes:
        beyond: the mean share of values that were beyond their range.
        ranges: the largest magnitude of each segment's mean, for the next round's.
    """

    state: SparseState
    statistic: Arrays | None
    loss: float
    beyond: float
    ranges: Mapping[str, float]


def read_update(
    found: Mapping[str, Floats], start: SparseState, template: Template, signed: bool
) -> MeanUpdate:
    """Return the mean update of a decoded sum.

    Args:
        start: what the clients were sent.
        signed: whether the statistic may be negative; else what rounding made so is zero.
    """
    total = float(found[WEIGHT][0])
    if not total > 0:
        raise PruneFLError("the weights of a secure sum come to nothing: a client sent what is none")
    mean = {name: part / total for name, part in found.items()}
    values: dict[str, Array] = {
        name: np.asarray(value + mean[WEIGHTS + name].reshape(value.shape), np.float32)
        for name, value in start.values.items()
    }
    statistic = {
        name.removeprefix(STATISTIC): np.asarray(
            part if signed else np.maximum(part, 0.0), np.float32
        ).reshape(template.shape_of[name.removeprefix(STATISTIC)])
        for name, part in mean.items()
        if name.startswith(STATISTIC)
    }
    ranges = {
        name: largest
        for name, part in mean.items()
        if name.startswith((WEIGHTS, STATISTIC)) and (largest := float(np.abs(part).max(initial=0.0)))
    }
    return MeanUpdate(
        SparseState(values, start.masks),
        statistic or None,
        float(mean[LOSS][0]),
        float(mean[BEYOND][0]),
        ranges,
    )


SCORES = tuple(
    Segment(f"{whose}{name}", 1, most)
    for whose in ("", "personal ")
    for name, most in (
        ("weight", 1.0),
        ("right", 1.0),
        ("loss", MOST_LOSS),
        ("accuracy", 1.0),
        ("clients", 1.0),
    )
)
"""The vector of an evaluation: of the model, and of personal models where clients made one."""


def make_score_vector(scores: Sequence[Score], cap: int) -> dict[str, Values]:
    """Return a client's scores by segment; `cap` is how many samples count fully."""
    vector: dict[str, Values] = {one.name: np.zeros(1) for one in SCORES}
    for whose, score in zip(("", "personal "), scores, strict=False):
        weight = min(score.samples, cap) / cap
        parts = {
            "weight": weight,
            "right": weight * score.accuracy,
            "loss": weight * score.loss,
            "accuracy": score.accuracy,
            "clients": 1.0,
        }
        vector |= {whose + name: np.array([value]) for name, value in parts.items()}
    return vector


def read_scores(found: Mapping[str, Floats], cap: int) -> tuple[MeanScore, MeanScore | None]:
    """Return what the decoded sum of scores says, of the model and of personal ones, if there were any."""
    model, personal = (_read_score(found, cap, whose) for whose in ("", "personal "))
    if model is None:
        raise PruneFLError("no client's scores are in the secure sum of an evaluation")
    return model, personal


def _read_score(found: Mapping[str, Floats], cap: int, whose: str) -> MeanScore | None:
    weight, right, loss, accuracy, clients = (
        float(found[whose + name][0]) for name in ("weight", "right", "loss", "accuracy", "clients")
    )
    count = round(clients)
    if count < 1 or weight <= 0:
        return None
    return MeanScore(count, round(weight * cap), right / weight, loss / weight, accuracy / count)
