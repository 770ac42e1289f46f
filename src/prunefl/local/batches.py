"""Which samples a client trains on, in which order."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from prunefl.config import Config
from prunefl.core.randomness import Stream, stream
from prunefl.data import Samples
from prunefl.local.backend import Batch

PORTION = 50
"""Steps whose samples are drawn together."""


def count_steps(num_samples: int, config: Config) -> int:
    """Return how many mini-batches a client with so many samples trains in a round."""
    training = config.training
    return training.local_epochs * len(_parts(num_samples, training.batch_size)) or training.local_steps


def with_steps(config: Config, num_samples: int) -> Config:
    """Return the config of one client: training.local_steps are those that it really trains in a round."""
    if not config.training.local_epochs:
        return config
    steps = count_steps(num_samples, config)
    return replace(config, training=replace(config.training, local_steps=steps, local_epochs=0))


def draw_batches(samples: Samples, round: int, client: int, config: Config) -> list[Batch]:
    """Return the round's mini-batches: samples without replacement, starting over when the data runs out."""
    source = stream(config.run.seed, "batches", round, client)
    if config.training.local_epochs:
        return _draw_epochs(samples, config.training.local_epochs, config.training.batch_size, source)
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


def fresh_batches(samples: Samples, count: int, turn: int, client: int, config: Config) -> list[Batch]:
    """Return the next `count` samples of an order that stays the same, from the `turn`-th on, round and round.

    A sample comes again only after all others.
    """
    count = min(count, len(samples))
    order = stream(config.run.seed, "initial", client).permutation(len(samples), len(samples))
    source = stream(config.run.seed, "initial turn", client, turn)
    chosen = order[np.arange(turn * count, (turn + 1) * count) % len(samples)]
    return [samples.batch(chosen[part], source) for part in _parts(count, config.training.batch_size)]


def fixed_batches(samples: Samples, count: int, client: int, config: Config) -> list[Batch]:
    """Return `count` samples in mini-batches that stay the same."""
    source = stream(config.run.seed, "initial", client)
    chosen = source.permutation(len(samples), count)
    parts = _parts(len(chosen), config.training.batch_size)
    return [samples.batch(chosen[part], source) for part in parts]


def _draw_epochs(samples: Samples, epochs: int, batch_size: int, source: Stream) -> list[Batch]:
    """Return so many passes over all samples, each in an order of its own."""
    parts = _parts(len(samples), batch_size)
    orders = [source.permutation(len(samples), len(samples)) for _ in range(epochs)]
    return [samples.batch(order[part], source) for order in orders for part in parts]


def _parts(count: int, size: int) -> list[slice]:
    """Return so many positions in mini-batches; the last may be smaller, but is not a single one beside others."""
    parts = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    if len(parts) > 1 and parts[-1].stop - parts[-1].start == 1:
        # BatchNorm has nothing to say about a single sample
        parts[-2:] = [slice(parts[-2].start, count)]
    return parts
