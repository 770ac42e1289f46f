"""What was tried on FEMNIST beside prunefl-fisher (docs/results.md); run.method=tried_methods:NAME runs one of them."""

import math
from dataclasses import replace

import numpy as np

from prunefl.core.masks import Masks
from prunefl.core.price import squared_loss
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods import Update, Work
from prunefl.methods.prunefl import Collect
from prunefl.methods.prunefl_fisher import FisherPruneFL


class Twice(FisherPruneFL):
    """Rounds at twice the rate of initial pruning."""

    label = "PruneFL, twice the rate later"

    def factor(self, round: int) -> float:
        """Return how many times the rate a round has."""
        return 2.0

    def train(self, work: Work, local: Local) -> Update:
        """Train at this multiple of the rate, but in initial pruning."""
        if isinstance(work, Collect):
            local = replace(local, rate=local.rate * self.factor(local.round))
        return super().train(work, local)


class Thrice(Twice):
    """Rounds at three times the rate of initial pruning."""

    label = "PruneFL, three times the rate later"

    def factor(self, round: int) -> float:
        """Return how many times the rate a round has."""
        return 3.0


class Ramp(Twice):
    """From the rate of initial pruning to twice as much in 40 rounds."""

    label = "PruneFL, rate doubled in 40 rounds"

    def factor(self, round: int) -> float:
        """Return how many times the rate a round has."""
        return 1 + min(1.0, round / 41)


class FromNothing(Twice):
    """From nothing to twice the rate of initial pruning in 20 rounds."""

    label = "PruneFL, twice the rate after a warm-up"

    def factor(self, round: int) -> float:
        """Return how many times the rate a round has."""
        return 2 * min(1.0, round / 21)


class Debiased(FisherPruneFL):
    """Importance less the noise of mini-batches: max(0, (n·ḡ² - z)/(n - 1)); the pass for ḡ is not charged."""

    label = "PruneFL, debiased importance"

    def train(self, work: Work, local: Local) -> Update:
        """Report the debiased importance where importance is asked for."""
        batches = local.batches()
        count = len(batches)
        if not (isinstance(work, Collect) and work.report and count > 1):
            return super().train(work, local)
        mean = local.gradient(batches)
        update = super().train(work, local)
        assert update.statistic is not None
        signal = {
            name: np.maximum(0, (count * np.square(mean[name]) - z) / (count - 1)).astype(np.float32)
            for name, z in update.statistic.items()
        }
        return replace(update, statistic=signal)


class FreeCut(FisherPruneFL):
    """The share that may go is what costs less than 0.001 of loss together, by w²z; 0.6 at most.

    Lenience goes by that share, too.
    """

    label = "PruneFL, f by the guard"

    def choose(
        self, state: SparseState, mean: Arrays, time_model: TimeModel, fraction: float, limit: float | None
    ) -> Masks:
        """Return the next masks by a share of its own."""
        lost = np.sort(np.concatenate([values.reshape(-1) for values in squared_loss(state, mean).values()]))
        total = np.cumsum(lost) * self.config.training.batch_size / 2
        free = float(np.searchsorted(total, 1e-3)) / max(1, lost.size)
        return super().choose(state, mean, time_model, min(0.6, free), limit)


class RampedCosine(Twice):
    """From the rate of initial pruning to 2.5 times as much in 40 rounds, then half a cosine to a tenth of that."""

    label = "PruneFL, Fisher guard, ramp and cosine"

    def factor(self, round: int) -> float:
        """Return how many times the rate a round has."""
        rounds = self.config.run.rounds
        since = max(0.0, (round - 40) / (rounds - 40))
        return (1 + 1.5 * min(1.0, round / 41)) * (0.1 + 0.9 * (1 + math.cos(math.pi * since)) / 2)


class FederatedStart(FisherPruneFL):
    """No client prunes alone: in the first initial.max_passes rounds all choose together, every initial.interval."""

    label = "PruneFL, Fisher guard, federated start"

    @property
    def prunes_first(self) -> bool:
        return False

    def prunes_early(self, round: int) -> bool:
        """Return whether this round is one of the first stage."""
        return round <= self.config.initial.max_passes
