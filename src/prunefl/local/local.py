"""What a method's client half may use: the client's own samples, its network, its memory. Whichever backend trains."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from prunefl.config import Config
from prunefl.core.masks import Shape
from prunefl.core.memory import Memory
from prunefl.core.network import Template
from prunefl.core.objectives import loss_of
from prunefl.core.state import Array, SparseState
from prunefl.data import Samples
from prunefl.local import batches
from prunefl.local.backend import Backend, Batch, Penalty, Sums, Trained

OnPass = Callable[[int, int, float], None]
"""Told of long work as it goes on: passes done, passes at most, density."""


@dataclass(frozen=True)
class Local:
    """A client in one round.

    Attributes:
        rate: the round's learning rate.
        received: the state that the server sent; `state` begins as this one.
        memory: what the method kept at this client when it last took part.
        same_masks: whether the masks are those of that time.
    """

    client: int
    round: int
    rate: float
    received: SparseState
    memory: Memory
    same_masks: bool
    config: Config
    template: Template
    classes: int
    samples: Samples
    backend: Backend
    on_pass: OnPass = lambda done, most, density: None

    @property
    def classifies(self) -> bool:
        """Whether each sample has a class: `Trained.right` and `classes` say something."""
        return loss_of(self.config).metric == "accuracy"

    def batches(self) -> list[Batch]:
        """Return the round's mini-batches."""
        return batches.draw_batches(self.samples, self.round, self.client, self.config)

    def fixed_batches(self, count: int) -> list[Batch]:
        """Return `count` samples in mini-batches that stay the same."""
        return batches.fixed_batches(self.samples, count, self.client, self.config)

    def fresh_batches(self, count: int, turn: int) -> list[Batch]:
        """Return `count` samples in mini-batches, others in each turn until all have been used; turns count from 0."""
        return batches.fresh_batches(self.samples, count, turn, self.client, self.config)

    def steps(
        self, batches: Sequence[Batch], sums: Sums | None = None, penalty: Penalty | None = None
    ) -> Trained:
        """Take one step a batch, of plain SGD or as [optimiser] says: w − rate·(g + penalty's gradient), live weights.

        What the optimiser remembers lasts until the round ends, and follows `replace_state` to other masks.
        """
        return self.backend.steps(batches, self.rate, sums, penalty)

    def loss(self, batches: Sequence[Batch]) -> float:
        """Return the mean loss over the batches."""
        return sum(self.backend.evaluate(batch)[1] for batch in batches) / len(batches)

    def gradient(
        self, batches: Sequence[Batch], shapes: Mapping[str, Shape] | None = None
    ) -> dict[str, Array]:
        """Return the mean gradient at all positions, live or pruned, of all parameters or of those given."""
        return self.backend.gradient(batches, list(shapes or self.template.parameters))

    @property
    def state(self) -> SparseState:
        """A copy of the state as it is now."""
        return self.backend.state()

    def replace_state(self, state: SparseState) -> None:
        """Go on from another state, of these masks or others."""
        self.backend.load(state)

    def threads(self, count: int) -> AbstractContextManager[None]:
        """Compute with so many threads meanwhile."""
        return self.backend.threads(count)
