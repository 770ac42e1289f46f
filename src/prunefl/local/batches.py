"""Which samples a client trains on, in which order."""

from collections.abc import Iterator

import numpy as np

from prunefl.config import Config
from prunefl.core.randomness import Stream, stream
from prunefl.data import Samples
from prunefl.local.backend import Batch

PORTION = 50
"""Steps whose samples are drawn together."""


def draw_batches(samples: Samples, round: int, client: int, config: Config) -> list[Batch]:
    """Return the round's mini-batches: samples without replacement, starting over when the data runs out."""
    source = stream(config.run.seed, "batches", round, client)
    return _draw(samples, config.training.local_steps, config.training.batch_size, source)


def personal_batches(samples: Samples, steps: int, client: int, config: Config) -> Iterator[list[Batch]]:
    """Yield mini-batches for so many steps, drawn as a round's, in portions: of many, few are in memory at a time."""
    source = stream(config.run.seed, "personal", client)
    for first in range(0, steps, PORTION):
        yield _draw(samples, min(PORTION, steps - first), config.training.batch_size, source)


def _draw(samples: Samples, steps: int, batch_size: int, source: Stream) -> list[Batch]:
    size = min(batch_size, len(samples))
    shuffles, wanted = -(-steps * size // len(samples)), steps * size
    order = np.concatenate([source.permutation(len(samples), wanted) for _ in range(shuffles)])[:wanted]
    return [samples.batch(order[first : first + size], source) for first in range(0, wanted, size)]


def fixed_batches(samples: Samples, count: int, client: int, config: Config) -> list[Batch]:
    """Return `count` samples in mini-batches that stay the same: what initial pruning uses."""
    source = stream(config.run.seed, "initial", client)
    chosen, size = source.permutation(len(samples), count), config.training.batch_size
    parts = [chosen[first : first + size] for first in range(0, len(chosen), size)]
    if len(parts) > 1 and len(parts[-1]) == 1:
        # BatchNorm has nothing to say about a single sample
        parts[-2:] = [np.concatenate(parts[-2:])]
    return [samples.batch(indices, source) for indices in parts]
