"""Evaluation at the clients: when, of which model, and what the scores come to. docs/records.md says it in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prunefl.config import Config
from prunefl.rounds.cost import Charge
from prunefl.rounds.scores import MeanScore, Score


def is_evaluated(round: int, config: Config) -> bool:
    """Return whether the model is evaluated after this round."""
    return round % config.run.eval_every == 0 or round >= config.run.rounds


def evaluates_at_clients(round: int, config: Config) -> bool:
    """Return whether clients evaluate the model after this round; what comes before round 1 is none."""
    return config.evaluation.share > 0 and round >= 1 and is_evaluated(round, config)


@dataclass(frozen=True)
class Evaluation:
    """How the model after a round does at those clients whose scores were good.

    Attributes:
        personal: client -> how its own model does, trained on from this one, of those that made one.
        refused: client -> why its scores were left out.
        charge: what it cost, beside the round itself.
        summed: with privacy.secure, what the sum of their scores says; nobody's own are known then.
        summed_personal: the same of personal models.
    """

    scores: Mapping[int, Score]
    personal: Mapping[int, Score]
    refused: Mapping[int, str]
    charge: Charge
    summed: MeanScore | None = None
    summed_personal: MeanScore | None = None

    @property
    def clients(self) -> int:
        """How many clients' scores these are."""
        return self.summed.clients if self.summed else len(self.scores)

    @property
    def samples(self) -> int:
        """Held-out samples of all these clients."""
        if self.summed:
            return self.summed.samples
        return sum(score.samples for score in self.scores.values())

    @property
    def accuracy(self) -> float:
        """Share of all held-out samples that are classified right: the mean by samples."""
        if self.summed:
            return self.summed.accuracy
        return sum(score.right for score in self.scores.values()) / self.samples

    @property
    def loss(self) -> float:
        """Mean loss over all held-out samples."""
        if self.summed:
            return self.summed.loss
        return math.fsum(score.loss * score.samples for score in self.scores.values()) / self.samples

    @property
    def client_accuracy(self) -> float:
        """Mean of the clients' accuracies: each client counts the same."""
        if self.summed:
            return self.summed.client_accuracy
        return math.fsum(score.accuracy for score in self.scores.values()) / len(self.scores)

    @property
    def worst_tenth(self) -> float | None:
        """Mean accuracy of the tenth of the clients, rounded up, at which it is lowest; a sum does not know it."""
        if self.summed:
            return None
        lowest = sorted(score.accuracy for score in self.scores.values())[: -(-len(self.scores) // 10)]
        return math.fsum(lowest) / len(lowest)
