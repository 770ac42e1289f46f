"""What trains a network at a client: one small protocol, whatever computes behind it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from prunefl.core.moments import Moments
from prunefl.core.objectives import Tally
from prunefl.core.state import Array, Arrays, SparseState
from prunefl.data.inputs import Inputs
from prunefl.data.samples import Batch

__all__ = ["Backend", "Batch", "Inputs", "Penalty", "Sums", "Trained"]

Penalty = Callable[[SparseState], Arrays]
"""From the state before a step to a gradient that is added to the loss's: name -> array shaped as in `values`."""


@dataclass(frozen=True)
class Sums:
    """Where gradients are added while steps are taken: g² or g of every mini-batch, at all positions, in place."""

    arrays: Mapping[str, Array]
    squared: bool = True


@dataclass(frozen=True)
class Trained:
    """What some steps showed: the mean loss, and how many of so many samples were classified right on the way.

    Where samples are not classified, none is right.
    """

    loss: float
    right: int
    samples: int


class Backend(Protocol):
    """One network that trains one client after another. Not shared between threads."""

    name: str
    """What computes: "torch" or "native"."""

    def seed(self, seed: int) -> None:
        """Begin the random numbers of dropout anew."""

    def begin(self, moments: Moments | None = None, anchor: SparseState | None = None) -> None:
        """Begin a client's training, before its state is loaded. The optimiser remembers its steps until the next one.

        Args:
            moments: what the optimiser remembers, under any masks; nothing by default.
            anchor: the weights that FedProx pulls towards; without them it does not pull.
        """

    def moments(self) -> Moments:
        """Return a copy of what the optimiser remembers, under the masks of the state."""

    def load(self, state: SparseState) -> None:
        """Take over a state; only other masks take time. What the optimiser remembers follows the masks."""

    def state(self) -> SparseState:
        """Return a copy of the state."""

    def steps(
        self, batches: Sequence[Batch], rate: float, sums: Sums | None = None, penalty: Penalty | None = None
    ) -> Trained:
        """Take one step of the optimiser a batch."""

    def gradient(self, batches: Sequence[Batch], names: Sequence[str]) -> dict[str, Array]:
        """Return the mean gradient over the batches at all positions of the named parameters; the state stays."""

    def evaluate(self, batch: Batch) -> tuple[int, float]:
        """Return how many samples are classified right, and the mean loss; as in use, not as in training."""

    def judge(self, batch: Batch) -> tuple[Tally, float]:
        """Return what the loss's metric adds up over these samples, and the mean loss; as in use."""

    def threads(self, count: int) -> AbstractContextManager[None]:
        """Compute with so many threads meanwhile."""
