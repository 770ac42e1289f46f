"""What changes with the round number: learning rate, prunable share, size limit."""

import math

from prunefl.config import Config
from prunefl.core.limits import prunable_fraction, size_limit
from prunefl.core.randomness import Stream, stream

SPARSEST = 1e-3
"""A model with fewer weights takes no larger steps than one of this density: nobody has measured what it bears."""


def learning_rate(round: int, config: Config, density: float = 1.0) -> float:
    """Return the rate of a round (the first is 1; the paper's r counts from 0; what is before it does not warm up).

    Args:
        density: of the model that is trained: one of few weights bears larger steps (docs/method.md 16).
    """
    return _rate_of_whole(round, config) * _pace(round, config, density)


def _pace(round: int, config: Config, density: float) -> float:
    """Return how many times as large the steps are for the density; before round 1 one client steps alone."""
    training = config.training
    reached = min(1.0, round / max(1, training.pace_rounds))
    return float(max(density, SPARSEST) ** -(training.pace * reached))


def _rate_of_whole(round: int, config: Config) -> float:
    training, r = config.training, max(0, round - 1)
    if round >= 1 and r < training.warmup_rounds:
        return training.learning_rate * (r + 1) / (training.warmup_rounds + 1)
    if training.schedule == "cosine":
        return _cosine_rate(r, config)
    r = r // training.decay_stairs * training.decay_stairs
    return float(training.learning_rate * training.decay ** (r / training.decay_rounds))


def _cosine_rate(r: int, config: Config) -> float:
    """Return half a cosine from the end of the warm-up to the end of the run."""
    training, final = config.training, config.training.final_rate
    since = max(0, r - training.warmup_rounds) / (config.run.rounds - training.warmup_rounds)
    return training.learning_rate * (final + (1 - final) * (1 + math.cos(math.pi * since)) / 2)


def fraction(completed: int, config: Config) -> float:
    """Return f(r), the share of the live weights that may go, after so many completed rounds (docs/method.md 3)."""
    return prunable_fraction(completed, config.pruning.fraction, config.pruning.half_life)


def max_density(completed: int, config: Config) -> float | None:
    """Return the size limit for masks chosen after so many completed rounds, or None (docs/method.md 6).

    The limit falls with every round but masks change only at reconfigurations, so the limit of the last round
    that these masks will see is the one they have to keep.
    """
    pruning, rounds = config.pruning, config.run.rounds
    last_round = min(completed + pruning.interval, rounds)
    return size_limit(last_round, rounds, pruning.density_limit or None, pruning.density_target or None)


def reconfigures(round: int, config: Config) -> bool:
    """Return whether masks are chosen anew after this round; after the last nobody would train them."""
    return round % config.pruning.interval == 0 and round < config.run.rounds


def horizon(config: Config) -> int:
    """Return the rounds over which schedules are laid out: of a run that is cut short, those of the whole."""
    return config.pruning.horizon or config.run.rounds


def cubic(round: int, rounds: float, start: float, end: float) -> float:
    """Return a density on its way from `start` to `end`, steep at first: Zhu and Gupta's gradual pruning."""
    left = max(0.0, 1 - round / rounds)
    return end + (start - end) * left**3


def regrowth(config: Config, round: int) -> tuple[Stream | None, float]:
    """Return where added-back weights come from: nothing (zero) or a stream and its scale (docs/method.md 7)."""
    if config.pruning.regrow == "zero":
        return None, 0.0
    return stream(config.run.seed, "regrow", round), config.pruning.perturbation
