"""What came of a round's orders, whoever collected it: openly, noised, or as a secure sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prunefl.core.state import Arrays
from prunefl.methods import Received
from prunefl.methods.base import Numbers

THE_SUM = -1
"""In place of a client's number: the one update that stands for all."""


@dataclass(frozen=True)
class Collected:
    """What came of a round's orders.

    Attributes:
        updates: the good ones, in the clients' order, whoever came first; with privacy.noise, their noised mean alone.
        statistic: p_n-weighted mean of what the clients reported, or None; robust where server.aggregate is.
        loss: p_n-weighted mean of the training losses; None with privacy.noise, when clients do not tell it.
        seconds: client -> compute time that it measured.
        sent: client -> bytes of each message that came, refused ones too.
        refused: client -> why its reply was left out.
        bounded: client -> what of its reply was out of bounds, and what was done about it.
        usual_change: norm of a usual client's change.
        opposition: client -> how much it has lately pulled against the others.
        down: client -> bytes of each message to it, where there were others than its order.
        participants: client -> numbers of its update, of all whose updates count, also where `updates` is one mean.
        next_clip: privacy's clip of the next round.
    """

    updates: Sequence[Received]
    statistic: Arrays | None
    loss: float | None
    seconds: Mapping[int, float]
    sent: Mapping[int, Sequence[int]]
    refused: Mapping[int, str]
    bounded: Mapping[int, str] = field(default_factory=dict)
    usual_change: float = 0.0
    opposition: Mapping[int, float] = field(default_factory=dict)
    down: Mapping[int, Sequence[int]] = field(default_factory=dict)
    participants: Mapping[int, Numbers] = field(default_factory=dict)
    next_clip: float = 0.0


@dataclass(frozen=True)
class SecureOutcome:
    """What a secure sum took.

    Attributes:
        clients: whose updates are in it.
        setup_bytes: for keys that later rounds use, too; they are among the round's bytes.
        repeats: attempts before, which had too few clients left.
        beyond: share of values that were beyond their range, and counted as it.
    """

    clients: int
    exchanges: int
    setup_bytes: int
    repeats: int
    beyond: float
