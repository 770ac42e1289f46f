"""Evaluation at the clients: when, of which model, and what the scores come to. docs/records.md says it in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prunefl.config import Config
from prunefl.rounds.cost import Charge
from prunefl.rounds.scores import Score


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
    """

    scores: Mapping[int, Score]
    personal: Mapping[int, Score]
    refused: Mapping[int, str]
    charge: Charge

    @property
    def samples(self) -> int:
        """Held-out samples of all these clients."""
        return sum(score.samples for score in self.scores.values())

    @property
    def accuracy(self) -> float:
        """Share of all held-out samples that are classified right: the mean by samples."""
        return sum(score.right for score in self.scores.values()) / self.samples

    @property
    def loss(self) -> float:
        """Mean loss over all held-out samples."""
        return math.fsum(score.loss * score.samples for score in self.scores.values()) / self.samples

    @property
    def client_accuracy(self) -> float:
        """Mean of the clients' accuracies: each client counts the same."""
        return math.fsum(score.accuracy for score in self.scores.values()) / len(self.scores)

    @property
    def worst_tenth(self) -> float:
        """Mean accuracy of the tenth of the clients, rounded up, at which it is lowest."""
        lowest = sorted(score.accuracy for score in self.scores.values())[: -(-len(self.scores) // 10)]
        return math.fsum(lowest) / len(lowest)
