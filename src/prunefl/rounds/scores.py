"""How a model does on a client's held-out samples, as bytes that are checked before they are believed."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prunefl.methods import BadUpdate
from prunefl.rounds.bounds import bound_losses, bound_samples
from prunefl.rounds.messages import EvaluationWork, Order, Reply
from prunefl.rounds.updates import NO_REPLY, RoundFailed

_SCORE = struct.Struct("<QQd")
SCORE_BYTES = _SCORE.size
"""Two whole numbers and a float64, little-endian."""


@dataclass(frozen=True)
class Score:
    """So many of a client's held-out samples are classified right; `loss` is their mean loss."""

    right: int
    samples: int
    loss: float

    @property
    def accuracy(self) -> float:
        """Share of the samples that are classified right."""
        return self.right / self.samples


@dataclass(frozen=True)
class MeanScore:
    """How a model does at so many clients: over all their samples, and as a mean of the clients' accuracies."""

    clients: int
    samples: int
    accuracy: float
    loss: float
    client_accuracy: float


def pack_scores(*scores: Score) -> bytes:
    """Return the scores as bytes, one after another."""
    return b"".join(_SCORE.pack(score.right, score.samples, score.loss) for score in scores)


def unpack_scores(data: bytes, count: int) -> list[Score]:
    """Return so many scores that the bytes hold; what cannot be true is a BadUpdate."""
    if len(data) != count * SCORE_BYTES:
        raise BadUpdate(f"scores of {len(data)} bytes, must be {count * SCORE_BYTES}")
    return [_checked(Score(*numbers)) for numbers in _SCORE.iter_unpack(data)]


def _checked(score: Score) -> Score:
    if not math.isfinite(score.loss):
        raise BadUpdate(f"loss on held-out samples turned {score.loss}")
    if score.samples < 1 or score.right > score.samples:
        raise BadUpdate(f"{score.right} of {score.samples} held-out samples are right, which cannot be")
    return score


@dataclass(frozen=True)
class Scored:
    """What came of orders to evaluate.

    Attributes:
        personal: client -> score of its personal model, of those that made one.
        sent: client -> bytes of each message that came, refused ones too.
        refused: client -> why its scores were left out.
    """

    scores: Mapping[int, Score]
    personal: Mapping[int, Score]
    sent: Mapping[int, tuple[int, ...]]
    refused: Mapping[int, str]


def collect_scores(orders: Mapping[int, Order], replies: Iterable[Reply], weight_cap: float = 0.0) -> Scored:
    """Return the good scores among the replies, in the clients' order, none out of bounds.

    Args:
        weight_cap: held-out samples count for at most so many times the median of the clients; 0: for any.

    Raises:
        RoundFailed: there is none.
    """
    good: dict[int, list[Score]] = {}
    sent, refused = {}, {}
    for reply in replies:
        sent[reply.client] = (len(reply.scores),)
        try:
            good[reply.client] = _checked_scores(orders.get(reply.client), reply)
        except BadUpdate as error:
            refused[reply.client] = str(error)
    refused |= {client: NO_REPLY for client in orders if client not in sent}
    if not good:
        first, round = min(refused), next(iter(orders.values())).round
        raise RoundFailed(
            f"evaluation after round {round}: no client's scores were good; client {first}: {refused[first]}",
            round,
            refused,
        )
    clients = sorted(good)
    personal = {client: good[client][1] for client in clients if len(good[client]) > 1}
    scores = _bound([good[client][0] for client in clients], weight_cap)
    return Scored(dict(zip(clients, scores, strict=True)), personal, sent, refused)


def _bound(scores: Sequence[Score], weight_cap: float) -> list[Score]:
    """Return the scores; one of very many samples, or of a very large loss, counts for less."""
    samples = [int(count) for count in bound_samples([score.samples for score in scores], weight_cap)]
    losses = bound_losses([score.loss for score in scores])
    return [
        Score(score.right * count // score.samples, count, loss)
        for score, count, loss in zip(scores, samples, losses, strict=True)
    ]


def _checked_scores(order: Order | None, reply: Reply) -> list[Score]:
    if order is None or reply.round != order.round:
        raise BadUpdate(f"scores for round {reply.round}, which this client was not asked for")
    if reply.model or reply.statistic:
        raise BadUpdate("an update, where scores were asked for")
    assert isinstance(order.work, EvaluationWork)
    # a client may train the final model for itself without being asked to
    own = order.work.final and len(reply.scores) == 2 * SCORE_BYTES
    scores = unpack_scores(reply.scores, 2 if own or order.work.personal_steps else 1)
    for score in scores:
        if score.samples > reply.held_out:
            raise BadUpdate(f"{score.samples} held-out samples, but {reply.held_out} were announced")
    return scores
