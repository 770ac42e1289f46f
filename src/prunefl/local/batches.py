"""Which samples a client trains on, in which order."""

import numpy as np

from prunefl.config import Config
from prunefl.core.randomness import stream
from prunefl.data import Samples
from prunefl.local.backend import Batch


def draw_batches(samples: Samples, round: int, client: int, config: Config) -> list[Batch]:
    """Return the round's mini-batches: samples without replacement, starting over when the data runs out."""
    source = stream(config.run.seed, "batches", round, client)
    steps, size = config.training.local_steps, min(config.training.batch_size, len(samples))
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
