"""What an optimiser remembers of each live weight; it follows the masks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prunefl.core.masks import Masks
from prunefl.core.state import SparseState


@dataclass(frozen=True)
class Moments:
    """What an optimiser remembers, at a client or at the server.

    Attributes:
        steps: how many steps were taken.
        slots: name of a moment ("momentum"; "first" and "second") -> its value for every parameter, under the masks of
            the weights. Empty before the first step.
    """

    steps: int = 0
    slots: Mapping[str, SparseState] = field(default_factory=dict)

    def remask(self, masks: Masks) -> "Moments":
        """Return the moments under new masks: kept for survivors, zero for weights that are new."""
        return Moments(self.steps, {name: slot.remask(masks) for name, slot in self.slots.items()})
