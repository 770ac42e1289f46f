"""What a second of a round costs in loss: w²z, what removing a weight is expected to cost, and t, what it saves.

z is the mean of g² over mini-batches. Near a minimum the mean gradient is small, so z times the batch size estimates
the Fisher information, and with it the curvature: removing w raises the loss by about half of w² times that
(docs/method.md 15).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunefl.core.importance import fixed_gain
from prunefl.core.masks import Counts, Masks
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel

Doubles = NDArray[np.float64]


def squared_loss(state: SparseState, importance: Arrays) -> dict[str, Doubles]:
    """Return w²z of each layer's live weights in row-major order; times half the batch size it is a loss.

    Args:
        importance: at all positions of each layer, in its own shape.
    """
    # in float64: squares of small weights times small importance fall below what float32 can tell from zero
    return {
        name: np.square(state.values[name], dtype=np.float64) * importance[name][mask]
        for name, mask in state.masks.items()
    }


def seconds_per_weight(time_model: TimeModel, counts: Counts) -> dict[str, float]:
    """Return t of each layer: the seconds of a round that its live weights cost together, shared among them.

    By difference: T as it is less T without the layer's weights. A marginal cost would call a layer that runs dense
    free, although cutting it deep enough saves time. A layer with no live weight has none to share among.
    """
    now = time_model.seconds(counts)
    return {
        name: max(0.0, now - time_model.seconds({**counts, name: 0})) / live if live else 0.0
        for name, live in counts.items()
    }


def loss_per_second(
    state: SparseState, importance: Arrays, seconds: Mapping[str, float]
) -> dict[str, Doubles]:
    """Return w²z/t of each layer's live weights: the loss paid for a second saved; infinite where nothing is saved."""
    lost = squared_loss(state, importance)
    return {
        name: values / seconds[name] if seconds[name] > 0 else np.full(values.size, np.inf)
        for name, values in lost.items()
    }


@dataclass(frozen=True)
class LayerAccount:
    """What a reconfiguration did to a layer.

    Attributes:
        cut, grown: weights that went, and that came.
        seconds: of a round, what the layer's live weights cost afterwards.
        saved: seconds of a round that the cut weights had cost.
        gain: summed importance of the layer's live weights afterwards.
        lost: loss that the cut weights are expected to cost.
    """

    cut: int
    grown: int
    seconds: float
    saved: float
    gain: float
    lost: float


@dataclass(frozen=True)
class Account:
    """Why masks were chosen: Γ and T of what was chosen, and what it cost, layer by layer."""

    gamma: float
    seconds: float
    layers: Mapping[str, LayerAccount]

    @property
    def lost(self) -> float:
        """Loss that everything cut is expected to cost."""
        return sum(layer.lost for layer in self.layers.values())


def account_for(
    before: SparseState, after: Masks, importance: Arrays, time_model: TimeModel, batch_size: int
) -> Account:
    """Return what going from a state to other masks gains and costs, by the importance that they were chosen by."""
    lost, old = squared_loss(before, importance), before.masks
    counts = after.counts
    then, now = seconds_per_weight(time_model, old.counts), seconds_per_weight(time_model, counts)
    layers = {}
    for name, mask in after.items():
        goes = ~mask[old[name]]
        cut = int(np.count_nonzero(goes))
        layers[name] = LayerAccount(
            cut=cut,
            grown=counts[name] - (old.counts[name] - cut),
            seconds=now[name] * counts[name],
            saved=then[name] * cut,
            gain=float(importance[name][mask].sum(dtype=np.float64)),
            lost=batch_size / 2 * float(lost[name][goes].sum()),
        )
    seconds = time_model.seconds(counts)
    gain = fixed_gain(importance, after) + sum(layer.gain for layer in layers.values())
    return Account(gain / seconds if seconds > 0 else 0.0, seconds, layers)


def as_note(account: Account) -> dict[str, Any]:
    """Return the account as a record has it."""
    layers = {name: asdict(layer) for name, layer in account.layers.items()}
    return {"gamma": account.gamma, "seconds": account.seconds, "lost": account.lost, "layers": layers}
