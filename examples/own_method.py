"""A method of your own, both halves in one file: q-FedAvg, in which clients that fare badly count for more.

From this folder:

    prunefl compare digits --methods conventional,own_method:QFedAvg --seeds 1 data.alpha=0.1

Real clients run code of yours only where they allow it: prunefl client --allow own_method:QFedAvg. An installed package
can register its methods under names of their own, in its pyproject.toml:

    [project.entry-points."prunefl.methods"]
    qfedavg = "own_method:QFedAvg"
"""

from collections.abc import Sequence

import numpy as np

from prunefl.core.masks import Counts, Masks
from prunefl.core.state import SparseState
from prunefl.local import Local
from prunefl.methods import BadUpdate, Combined, Memory, Method, Received, Steps, Update, Work
from prunefl.methods.base import Numbers

Q = 1.0
"""How much fairness counts; 0 would be a plain mean."""


class QFedAvg(Method):
    """Li et al. 2020, Fair Resource Allocation: updates weighed by the q-th power of the loss before training."""

    label = "q-FedAvg"

    def train(self, work: Work, local: Local) -> Update:
        """The client's half: also say the loss of the model received, and the round's rate."""
        batches = local.batches()
        numbers = {"loss": local.loss(batches), "rate": local.rate}
        trained = local.steps(batches)
        return Update(local.state, trained.loss, numbers=numbers)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        """What the clock charges: the steps, and as many forward passes, a third of a step each."""
        steps = self.config.training.local_steps
        return [Steps(steps, live), Steps(steps / 3, live)]

    def check(self, work: Work, numbers: Numbers, masks: Masks) -> None:
        """Refuse what cannot be true: a client is not believed, but checked."""
        if numbers.keys() != {"loss", "rate"}:
            raise BadUpdate("must report the loss of the model received, and the rate")
        for name, value in numbers.items():
            if isinstance(value, list) or not 0 < value < 1e6:
                raise BadUpdate(f"{name}={value}, must be a number > 0")

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        """The server's half: w − Σ F^q Δ / Σ (q F^(q−1) ‖Δ‖² + F^q / rate), where Δ = (w − w_n) / rate."""
        sums = {name: np.zeros_like(value) for name, value in start.values.items()}
        total = 0.0
        for update in updates:
            loss, rate = (float(update.numbers[name]) for name in ("loss", "rate"))  # type: ignore[arg-type]
            squares = 0.0
            for name, value in start.values.items():
                change = (value - update.state.values[name]) / np.float32(rate)
                sums[name] += np.float32(loss**Q) * change
                squares += float(np.square(change, dtype=np.float64).sum())
            total += Q * loss ** (Q - 1) * squares + loss**Q / rate
        values = {name: value - sums[name] / np.float32(total) for name, value in start.values.items()}
        return Combined(SparseState(values, start.masks), memory)
