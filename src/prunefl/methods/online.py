"""Online learning of the model's size by the sign of an estimated derivative (Han, Wang, Leung 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from prunefl.core.masks import full_masks
from prunefl.methods import Chosen, Memory, Pruner, Seen
from prunefl.methods.survivors import keep_largest_by_layer, layer_targets, magnitudes, sizes_of, stream
from prunefl.rounds.messages import Ask, Reply

if TYPE_CHECKING:
    from prunefl.config import Config

WINDOW, WIDEN, PATIENCE = 20, 1.5, 10


@dataclass(frozen=True)
class Search:
    """Where the search for k stands.

    Attributes:
        k, probe: weights to keep, and k' which is tried beside it.
        low, high: the interval that k may move in; `least`, `most` bound it for good.
        since: rounds since the interval last changed (m).
        updates, smallest, largest: how often k was chosen in this window, and its extremes there.
        waited: rounds in a row that told nothing, as a loss had risen.
        loss: of the model received last; 0 before the first round.
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
    loss: float = 0.0


def start(total: int) -> Search:
    """Return the search over [0.002 N, N] that begins with the full model."""
    return Search(total, ceil(0.9 * total), 0.002 * total, total, 0.002 * total, total)


def advance(
    search: Search, loss: float, probe_loss: float, cost: float, probe_cost: float, lots: Sequence[float]
) -> Search:
    """Return the search after a round.

    Args:
        loss, probe_loss: of the model with k and with k' weights.
        cost, probe_cost: seconds of a round with k and with k'.
        lots: two uniform numbers for the stochastic rounding of k and k'.
    """
    if search.loss == 0:
        return replace(search, loss=loss)
    since = search.since + 1
    step = (search.high - search.low) / sqrt(2 * since)
    fell = search.loss > loss and search.loss > probe_loss
    search = replace(search, since=since, waited=0 if fell else search.waited + 1)
    if not fell and search.waited <= PATIENCE:
        return replace(search, loss=loss)
    # a loss that keeps rising says that the model is too small
    uphill = -1.0
    if fell:
        probe_cost *= (search.loss - loss) / (search.loss - probe_loss)
        uphill = (cost > probe_cost) - (cost < probe_cost)
    k = min(max(_rounded(search.k - step * uphill, lots[0]), round(search.low)), round(search.high))
    probe = max(_rounded(k - step / 2, lots[1]), ceil(0.1 * search.low))
    moved = replace(search, k=k, probe=max(1, min(probe, k - 1)), waited=0, loss=loss)
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


@dataclass(frozen=True)
class Online(Pruner):
    """The server keeps the dense weights; each round the model is their k/N largest in every layer."""

    seed: int
    uniform: bool

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        masks = full_masks(model, names)
        total = sum(sizes_of(masks).values())
        return Chosen(masks, Memory(numbers=asdict(start(total)) | {"total": total}))

    def ask(self, round: int, memory: Memory) -> Ask:
        return Ask(probe_density=_number(memory, "probe") / _number(memory, "total"))

    def next(self, seen: Seen) -> Chosen:
        dense = _dense(seen)
        sizes = sizes_of(seen.masks)
        total = sum(sizes.values())
        search = self._advance(seen, sizes, total)
        counts = layer_targets(search.k / total, sizes)
        everywhere = {name: torch.ones_like(mask) for name, mask in seen.masks.items()}
        masks = keep_largest_by_layer(magnitudes(dense, seen.masks), everywhere, counts)
        weights = {**seen.weights, **{name: dense[name] * mask for name, mask in masks.items()}}
        memory = Memory(numbers=asdict(search) | {"total": total}, tensors=dense)
        return Chosen(masks, memory, weights)

    def _advance(self, seen: Seen, sizes: Mapping[str, int], total: int) -> Search:
        numbers = {name: value for name, value in seen.memory.numbers.items() if name != "total"}
        search = Search(**numbers)  # type: ignore[arg-type]
        cost, probe_cost = (
            seen.time_model.seconds(layer_targets(k / total, sizes)) for k in (search.k, search.probe)
        )
        losses = self._losses(seen.replies)
        lots = torch.rand(2, generator=stream("online", self.seed, seen.round)).tolist()
        return advance(search, *losses, cost, probe_cost, lots)

    def _losses(self, replies: Sequence[Reply]) -> tuple[float, float]:
        """Return the p_n-weighted loss of the model received and of the one probed."""
        shares = [1 if self.uniform else reply.num_samples for reply in replies]
        start_loss = sum(p * reply.start_loss for p, reply in zip(shares, replies, strict=True))
        probe_loss = sum(p * reply.probe_loss for p, reply in zip(shares, replies, strict=True))
        return start_loss / sum(shares), probe_loss / sum(shares)


def _number(memory: Memory, name: str) -> float:
    value = memory.numbers[name]
    assert not isinstance(value, list)
    return value


def _dense(seen: Seen) -> dict[str, Tensor]:
    """Return the dense weights: trained where live, as they were when last live elsewhere."""
    kept = seen.memory.tensors
    return {
        name: torch.where(mask, seen.weights[name], kept.get(name, seen.weights[name]))
        for name, mask in seen.masks.items()
    }


def online(config: "Config") -> Pruner:
    """Return online learning of the density; it needs no `pruning.density`."""
    return Online(config.run.seed, config.training.weighting == "uniform")
