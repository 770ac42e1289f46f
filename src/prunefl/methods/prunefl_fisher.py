"""PruneFL with another guard: what may go is what costs the least loss for a second saved (docs/method.md 15)."""

from prunefl.core import importance
from prunefl.core.limits import allowed_weights
from prunefl.core.masks import Masks
from prunefl.core.price import loss_per_second, seconds_per_weight
from prunefl.core.reconfigure import reconfigure
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel, lengthen
from prunefl.methods.prunefl import PruneFL


class FisherPruneFL(PruneFL):
    """The paper's two stages with P chosen by smallest w²z/t in the whole model, instead of smallest |w| by layer.

    w²z is what removing a weight is expected to cost in loss (the Fisher estimate), t the seconds it costs: the mirror
    image of Γ. z is at the server anyway, so it takes no byte and no step more. Late in training Γ alone would choose
    too small a model: the less may go, the longer a round counts, and more comes back.
    """

    name = "prunefl-fisher"
    label = "PruneFL, Fisher guard"
    colours, dash, place = ("#b5179e", "#ff7ae0"), "", 0

    def choose(
        self, state: SparseState, mean: Arrays, time_model: TimeModel, fraction: float, limit: float | None
    ) -> Masks:
        """Return the next masks; where no weight has any importance, there is nothing to choose by."""
        small_enough = sum(state.masks.counts.values()) <= allowed_weights(limit, state.masks.size)
        if small_enough and not any(mean[name].any() for name in state.masks):
            return state.masks
        counts = state.masks.counts
        seconds = seconds_per_weight(time_model, counts)
        longer = (self.times_as_long(fraction) - 1) * time_model.seconds(counts)
        return reconfigure(
            state,
            mean,
            lengthen(time_model, longer),
            fraction=fraction,
            scope="global",
            fixed_gain=importance.fixed_gain(mean, state.masks),
            max_density=limit,
            guard=lambda here: loss_per_second(here, mean, seconds),
        )

    def times_as_long(self, fraction: float) -> float:
        """Return how many times as long a round counts where this share may go: once at f(0), then ever more."""
        first, most = self.config.pruning.fraction, self.config.pruning.lenience
        return 1 + (most - 1) * max(0.0, 1 - fraction / first) if first else 1.0
