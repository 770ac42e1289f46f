"""Online learning of the model's size by the sign of an estimated derivative (Han, Wang, Leung 2020).

Three losses decide: of the model before, of this one, and of this one made smaller. Each client takes them on the same
few samples, and reports the losses, never the samples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, sqrt
from typing import cast

import numpy as np

from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.randomness import lots
from prunefl.core.select import keep_largest_by_layer, largest, layer_targets, target_count
from prunefl.core.state import Array, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.methods.base import BadUpdate, Chosen, Method, Numbers, Received, Seen, Steps, Update, Work

WINDOW, WIDEN, PATIENCE = 20, 1.5, 10

SAMPLES = 5
"""Of each client, for the losses: as many as in the authors' code."""


@dataclass(frozen=True)
class Search:
    """Where the search for k stands.

    Attributes:
        k, probe: weights to keep, and k' which is tried beside it.
        low, high: the interval that k may move in; `least`, `most` bound it for good.
        since: rounds since the interval last changed (m).
        updates, smallest, largest: how often k was chosen in this window, and its extremes there.
        waited: rounds in a row that told nothing, as a loss had risen.
    """

    k: int
    probe: int
    low: float
    high: float
    least: float
    most: float
    since: int = 0
    updates: int = 0
    smallest: float = 0.0
    largest: float = 0.0
    waited: int = 0


def start(total: int) -> Search:
    """Return the search over [0.002 N, N] that begins with the full model."""
    return Search(total, ceil(0.9 * total), 0.002 * total, total, 0.002 * total, total)


def advance(
    search: Search, losses: tuple[float, float, float], cost: float, probe_cost: float, lots: Sequence[float]
) -> Search:
    """Return the search after a round.

    Args:
        losses: of the model before, of the one with k and of the one with k' weights, on the same samples.
        cost, probe_cost: seconds of a round with k and with k'.
        lots: two uniform numbers for the stochastic rounding of k and k'.
    """
    before, loss, probe_loss = losses
    since = search.since + 1
    step = (search.high - search.low) / sqrt(2 * since)
    fell = before > loss and before > probe_loss
    search = replace(search, since=since, waited=0 if fell else search.waited + 1)
    if not fell and search.waited <= PATIENCE:
        return search
    # a loss that keeps rising says that the model is too small
    uphill = -1.0
    if fell:
        probe_cost *= (before - loss) / (before - probe_loss)
        uphill = (cost > probe_cost) - (cost < probe_cost)
    k = min(max(_rounded(search.k - step * uphill, lots[0]), round(search.low)), round(search.high))
    probe = max(_rounded(k - step / 2, lots[1]), ceil(0.1 * search.low))
    moved = replace(search, k=k, probe=max(1, min(probe, k - 1)), waited=0)
    return _narrowed(moved)


def _rounded(value: float, lot: float) -> int:
    """Return one of the two whole numbers around the value, so that the mean is the value."""
    return floor(value) + (lot < value - floor(value))


def _narrowed(search: Search) -> Search:
    """Return the search with its window extended by k, and every 20 updates a smaller interval if it pays."""
    first = search.updates == 0
    smallest = search.k if first else min(search.smallest, search.k)
    largest = search.k if first else max(search.largest, search.k)
    search = replace(search, updates=search.updates + 1, smallest=smallest, largest=largest)
    if search.updates < WINDOW:
        return search
    search = replace(search, updates=0)
    low, high = max(smallest / WIDEN, search.least), min(largest * WIDEN, search.most)
    width = search.high - search.low
    if high <= low or width + (high - low) > sqrt(2) * width:
        return search
    return replace(search, low=low, high=high, since=0)


LOSSES = ("previous_loss", "loss", "probe_loss")
"""What clients report, 0 for the first where they have received no model before."""


@dataclass(frozen=True)
class Probe(Work):
    """Also report losses: of the model received last time, of this one, of this one at this density in each layer."""

    density: float = 0.0


class Online(Method):
    """The server keeps the dense weights; each round the model is their k/N largest in every layer."""

    name = "online"
    label = "Online learning"
    colours, dash, place = ("#c07f00", "#f2b63c"), "3 3", 4
    looks_at_clients = "it goes by losses of single clients"
    works = (Probe,)

    def first(self, network: Network) -> Chosen:
        total = network.full_masks.size
        return Chosen(network.full_masks, Memory(numbers=asdict(start(total)) | {"total": total}))

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        return Probe(density=memory.number("probe") / memory.number("total"))

    def train(self, work: Work, local: Local) -> Update:
        assert isinstance(work, Probe)
        few = local.fixed_batches(SAMPLES)
        # the first time there is none to compare with
        losses = [local.memory.number("loss"), local.loss(few)]
        # the smaller model is this one with more zeros in it
        local.replace_state(prune_values(local.received, work.density))
        losses.append(local.loss(few))
        local.replace_state(local.received)
        trained = local.steps(local.batches())
        numbers = dict(zip(LOSSES, losses, strict=True))
        return Update(local.state, trained.loss, numbers=numbers, memory=Memory({"loss": losses[1]}))

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        training = self.config.training
        # a forward pass is a third of a step, and a step is one of a whole mini-batch; the loss before is remembered
        return [Steps(training.local_steps, live), Steps(2 * SAMPLES / training.batch_size / 3, live)]

    def check(self, work: Work, numbers: Numbers, masks: Masks) -> None:
        if numbers.keys() != set(LOSSES) or any(isinstance(n, list) for n in numbers.values()):
            raise BadUpdate(
                "must report the losses of the model before, of the one received and of the one probed"
            )

    def next(self, seen: Seen) -> Chosen:
        dense, masks = _dense(seen), seen.state.masks
        search = self._advance(seen)
        counts = layer_targets(search.k / masks.size, masks)
        sizes = {name: np.abs(weight).reshape(-1) for name, weight in dense.items()}
        chosen = keep_largest_by_layer(Masks.full(masks.shapes), sizes, counts)
        memory = Memory(asdict(search) | {"total": masks.size}, dense)
        return Chosen(chosen, memory, SparseState.from_dense({**seen.state.values, **dense}, chosen))

    def _advance(self, seen: Seen) -> Search:
        numbers = {name: value for name, value in seen.memory.numbers.items() if name != "total"}
        search, masks = Search(**numbers), seen.state.masks  # type: ignore[arg-type]
        cost, probe_cost = (
            seen.time_model.seconds(layer_targets(k / masks.size, masks)) for k in (search.k, search.probe)
        )
        told = [update for update in seen.updates if update.numbers["previous_loss"]]
        if not told:
            return search
        before, loss, probe_loss = (_mean(told, name) for name in LOSSES)
        drawn = lots("online", self.config.run.seed, seen.round).uniform((2,)).tolist()
        return advance(search, (before, loss, probe_loss), cost, probe_cost, drawn)


def prune_values(state: SparseState, density: float) -> SparseState:
    """Return the state with only each layer's largest |w| left, `density` of all its weights; masks stay."""
    pruned = {}
    for name, size in state.masks.sizes.items():
        values = state.values[name]
        pruned[name] = np.where(largest(np.abs(values), target_count(density, size)), values, np.float32(0))
    return SparseState({**state.values, **pruned}, state.masks)


def _mean(updates: Sequence[Received], name: str) -> float:
    """Return the p_n-weighted mean of a loss that these clients reported."""
    total = math.fsum(update.share * cast(float, update.numbers[name]) for update in updates)
    return total / math.fsum(update.share for update in updates)


def _dense(seen: Seen) -> Mapping[str, Array]:
    """Return the dense weights: trained where live, as they were when last live elsewhere."""
    kept = seen.memory.arrays
    return {
        name: np.where(mask, seen.state.dense(name), kept[name]) if name in kept else seen.state.dense(name)
        for name, mask in seen.state.masks.items()
    }
