"""A method of your own, both halves in one file: FedProx, which holds clients near the server's weights.

From this folder:

    prunefl compare digits --methods conventional,own_method:FedProx --seeds 1 data.alpha=0.1

Real clients run code of yours only where they allow it: prunefl client --allow own_method:FedProx. An installed package
can register its methods under names of their own, in its pyproject.toml:

    [project.entry-points."prunefl.methods"]
    fedprox = "own_method:FedProx"
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prunefl.core.masks import Counts
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods import Memory, Method, Steps, Update, Work
from prunefl.methods.base import Numbers


@dataclass(frozen=True)
class Near(Work):
    """What the server asks of clients in a round: numbers, texts and flags that travel with the model."""

    strength: float = 0.0


class FedProx(Method):
    """Li et al. 2020: each step also pulls the weights back towards those received. All else is conventional."""

    label = "FedProx"
    works = (Near,)

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        """The server's half: how strong the pull is."""
        return Near(strength=0.1)

    def train(self, work: Work, local: Local) -> Update:
        """The client's half: steps whose gradient is that of the loss plus strength · (w − w received)."""
        assert isinstance(work, Near)
        strength, start = work.strength, local.received.values

        def pull(state: SparseState) -> Arrays:
            return {name: strength * (state.values[name] - start[name]) for name in local.template.parameters}

        trained = local.steps(local.batches(), penalty=pull)
        return Update(local.state, trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        """What the clock charges: two operations more for each live weight and step."""
        extra = 2 * sum(live.values())
        return [Steps(self.config.training.local_steps, live, extra_flops=extra)]
