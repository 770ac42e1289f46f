"""PruneFL with another guard: what may go is what costs the least loss for a second saved (docs/method.md 15)."""

from prunefl.core import importance
from prunefl.core.limits import allowed_weights
from prunefl.core.masks import Masks
from prunefl.core.price import loss_per_second, seconds_per_weight
from prunefl.core.reconfigure import reconfigure
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.methods.prunefl import PruneFL


class FisherPruneFL(PruneFL):
    """The paper's two stages with P chosen by smallest w²z/t in the whole model, instead of smallest |w| by layer.

    w²z is what removing a weight is expected to cost in loss (the Fisher estimate), t the seconds it costs: the mirror
    image of Γ. z is at the server anyway, so it takes no byte and no step more.
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
        seconds = seconds_per_weight(time_model, state.masks.counts)
        return reconfigure(
            state,
            mean,
            time_model,
            fraction=fraction,
            scope="global",
            fixed_gain=importance.fixed_gain(mean, state.masks),
            max_density=limit,
            guard=lambda here: loss_per_second(here, mean, seconds),
        )
