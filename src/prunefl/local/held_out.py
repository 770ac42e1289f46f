"""Which of its own samples a client holds out: never trained on, only evaluated on."""

import math
from dataclasses import dataclass

import numpy as np

from prunefl.config import Config
from prunefl.core.randomness import Ints, Stream, stream
from prunefl.data import Samples
from prunefl.local.backend import Backend, Batch
from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class Part:
    """Some of a client's samples, by their positions, int64 (len(self),)."""

    whole: Samples
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Ints, stream: Stream | None = None) -> Batch:
        """Return inputs and labels; see Samples."""
        return self.whole.batch(self.rows[indices], stream)


@dataclass(frozen=True)
class Split:
    """A client's samples: those that it trains on, and those held out, if any."""

    train: Samples
    held_out: Samples | None = None

    @property
    def num_held_out(self) -> int:
        """How many are held out."""
        return 0 if self.held_out is None else len(self.held_out)


def count_held_out(num_samples: int, client: int, config: Config) -> int:
    """Return how many samples a client holds out: evaluation.share of them, rounded, but one at least."""
    share = config.evaluation.share
    if share == 0:
        return 0
    count = max(1, round(share * num_samples))
    if count >= num_samples:
        raise PruneFLError(
            f"client {client} has {num_samples} samples and would hold out {count} (evaluation.share={share}): none "
            "would be left to train on; lower evaluation.share, or give this client more samples"
        )
    return count


def split_samples(samples: Samples, client: int, config: Config) -> Split:
    """Return what the client trains on and what it holds out, the same whenever it is asked."""
    count = count_held_out(len(samples), client, config)
    if not count:
        return Split(samples)
    chosen = stream(config.run.seed, "evaluation", client).permutation(len(samples), count)
    out = np.zeros(len(samples), bool)
    out[chosen] = True
    return Split(Part(samples, np.flatnonzero(~out)), Part(samples, np.flatnonzero(out)))


def count_right(backend: Backend, samples: Samples, batch_size: int) -> tuple[int, float]:
    """Return how many samples the loaded model classifies right, and its mean loss."""
    right, losses = 0, []
    for first in range(0, len(samples), batch_size):
        indices = np.arange(first, min(first + batch_size, len(samples)))
        found, loss = backend.evaluate(samples.batch(indices))
        right += found
        losses.append(loss * len(indices))
    return right, math.fsum(losses) / len(samples)
