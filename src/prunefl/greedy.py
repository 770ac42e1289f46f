"""Algorithm 3, for any monotone T over per-layer counts: a sorted list per layer, the best head at each step.

Within a layer the most important weight always goes first, so the answer is a number of weights per layer.
Where T is piecewise linear (a fleet's slowest device, dense against sparse) its marginal costs change seldom:
between two changes whole stretches are taken at once, each step of them checked, and the result is that of
single steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunefl.time_model import FleetTime, KinkedTime, LinearTime, TimeModel, TimeTable, table

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

TIE = 1 - 2.0**-44
"""Ratios that differ by less than the rounding of long float64 sums are equal, and equal qualifies."""
STRETCH = 1 << 17


@dataclass
class Path:
    """How far the algorithm has come; it is moved along in place."""

    heads: list[Floats]  # the candidates of each layer, most important first
    taken: Ints
    counts: Ints  # live weights per layer, protected ones included
    gain: float  # Δ of what is live now
    room: int  # how many more weights may live

    def take(self, layers: Ints, gain: float) -> None:
        """Move the next weight of each of these layers into the model."""
        steps = np.bincount(layers, minlength=len(self.heads))
        self.taken += steps
        self.counts += steps
        self.gain += gain
        self.room -= len(layers)


def best_counts(
    candidates: Mapping[str, Floats],
    time_model: TimeModel,
    kept_gain: float,
    counts: Mapping[str, int],
    room: int,
) -> dict[str, int]:
    """Return how many of each layer's candidates to take, the most important first (Algorithm 3).

    Args:
        candidates: importance of the prunable weights of each layer.
        kept_gain: importance of all that must stay.
        counts: weights of each layer that must stay.
        room: at most so many are taken.
    """
    names = list(candidates)
    heads = [np.sort(candidates[name])[::-1] for name in names]
    start = np.array([counts[name] for name in names], dtype=np.int64)
    path = Path(heads, np.zeros_like(start), start, kept_gain, room)
    if isinstance(time_model, LinearTime | KinkedTime | FleetTime):
        _walk_pieces(path, table(time_model, names))
    else:
        _walk_any(path, lambda n: time_model.seconds(dict(zip(names, n.tolist(), strict=True))))
    return dict(zip(names, path.taken.tolist(), strict=True))


def _walk_any(path: Path, seconds: Callable[[Ints], float]) -> None:
    """Take single steps for a T of which nothing is known but that it is monotone."""
    one = np.eye(len(path.heads), dtype=np.int64)
    while path.room > 0:
        now = seconds(path.counts)
        marginal = np.array([seconds(path.counts + step) - now for step in one])
        if not _step(path, now, marginal):
            return


def _step(path: Path, seconds: float, marginal: NDArray[np.float64]) -> bool:
    """Take the best head if it is worth its time; return whether it was."""
    gains = np.array(
        [h[k] if k < len(h) else -1.0 for h, k in zip(path.heads, path.taken, strict=True)], dtype=float
    )
    best = int(np.argmax(_ratios(gains, marginal)))
    # cross-multiplied, so that T = 0 and marginal = 0 need no rule of their own
    if gains[best] < 0 or gains[best] * seconds < marginal[best] * path.gain * TIE:
        return False
    path.take(np.array([best]), float(gains[best]))
    return True


def _ratios(gains: NDArray[np.float64], marginal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return gain per second; what costs nothing comes first, an empty list (gain −1) last."""
    ratios = np.full(gains.shape, np.inf)
    np.divide(gains, marginal, out=ratios, where=marginal > 0)
    ratios[gains < 0] = -np.inf
    return ratios


def _walk_pieces(path: Path, times: TimeTable) -> None:
    """Take stretches of constant marginal cost, and single steps where it changes."""
    singles = 1
    while path.room > 0:
        more, steps = _stretch(path, times)
        # along a ridge between two devices stretches are short: fewer attempts, then
        singles = 1 if steps > 64 else min(2 * singles, 4096)
        for _ in range(singles):
            if not more or path.room <= 0:
                return
            now, marginal = _marginals(times, path.counts)[:2]
            more = _step(path, float(now.max()), marginal)


def _marginals(
    times: TimeTable, counts: Ints
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], Ints]:
    """Return the cost of the next weights in four arrays: the seconds of each device, what one more weight
    of each layer adds to T, the same on each device alone, and for how many weights the latter holds."""
    slope, until = _pieces(times, counts)
    seconds = times.device_seconds(counts)
    # differences to the slowest, not of whole rounds: a weight costs 1e-7 of them and would drown in rounding
    marginal = (seconds[:, None] - seconds.max() + slope).max(axis=0)
    return seconds, np.maximum(marginal, 0.0), slope, until


def _pieces(times: TimeTable, counts: Ints) -> tuple[NDArray[np.float64], Ints]:
    """Return the cost of each layer's next weight on each device, and how many more weights cost as much."""
    ways = times.intercept + times.slope * counts[None, :, None]
    order = np.lexsort((times.slope, ways), axis=2)[..., :1]  # at a crossing the flatter line leads on
    here = np.take_along_axis(ways, order, 2)[..., 0]
    slope = np.take_along_axis(times.slope, order, 2)[..., 0]
    intercept = np.take_along_axis(times.intercept, order, 2)[..., 0]
    flatter = times.slope < slope[..., None]
    crossing = np.full(ways.shape, np.inf)
    np.divide(
        times.intercept - intercept[..., None], slope[..., None] - times.slope, out=crossing, where=flatter
    )
    until = np.floor(crossing.min(axis=(0, 2))) - counts
    following = (times.intercept + times.slope * (counts + 1)[None, :, None]).min(axis=2)
    cost = np.where(until >= 1, slope, following - here)  # the step over a kink costs a part of both slopes
    return cost, np.clip(until, 0, 2**62).astype(np.int64)


def _stretch(path: Path, times: TimeTable) -> tuple[bool, int]:
    """Take as many steps as the costs certainly stay what they are; return whether to go on, and how many."""
    seconds, marginal, slope, until = _marginals(times, path.counts)
    slowest = int(np.argmax(seconds))
    cost = slope[slowest]
    open_ = path.taken < [len(head) for head in path.heads]
    if not np.array_equal(cost[open_], marginal[open_]):
        return True, 0
    layers, gains = _merged(path, cost, until)
    own = cost[layers]
    before = path.gain + np.concatenate(([0.0], np.cumsum(gains)))
    now = seconds[slowest] + np.concatenate(([0.0], np.cumsum(own)))
    ends = gains * now[:-1] < own * before[:-1] * TIE
    # another device takes over once its lag is less than it could lose to the slowest by one weight
    lag = (seconds - seconds[slowest])[:, None] + np.cumsum(slope[:, layers] - own, axis=1)
    lag = np.concatenate(((seconds - seconds[slowest])[:, None], lag), axis=1)[:, :-1]
    turns = (lag > (cost - slope)[:, open_].min(axis=1, initial=np.inf)[:, None]).any(axis=0)
    halt = ends | turns
    steps = min(int(np.argmax(halt)) if halt.any() else len(layers), path.room)
    path.take(layers[:steps], float(before[steps] - path.gain))
    return not (steps < len(layers) and ends[steps] and not turns[steps]), steps


def _merged(path: Path, cost: NDArray[np.float64], until: Ints) -> tuple[Ints, NDArray[np.float64]]:
    """Return layer and gain of the next weights in the order of gain/cost, as far as these costs hold."""
    remaining = np.array([len(h) for h in path.heads]) - path.taken
    span = np.minimum(np.minimum(remaining, until), STRETCH)
    free = np.flatnonzero((cost == 0) & (remaining > 0))
    if free.size:
        layer = int(free[0])
        return np.full(span[layer], layer), _next(path, layer, int(span[layer]))
    border = _ratios(np.array([_gain_after(path, k, int(s)) for k, s in enumerate(span)]), cost)
    last = int(np.argmax(border))  # the first layer of which we must not know more than this stretch
    layers, gains = [], []
    for layer in range(len(path.heads)):
        values = _next(path, layer, int(span[layer]))
        ratios = values / cost[layer]
        # before the border's own turn come equals of earlier layers, and never later ones
        worth = ratios >= border[last] if layer <= last else ratios > border[last]
        size = int(np.count_nonzero(worth))
        layers.append(np.full(size, layer))
        gains.append(values[:size])
    joined, values = np.concatenate(layers), np.concatenate(gains)
    order = np.argsort(-(values / cost[joined]), kind="stable")
    # a layer that comes to its kink has another cost from there on: no step is known beyond it
    ends = [
        np.flatnonzero(joined[order] == k)[-1] for k, part in enumerate(gains) if 0 < len(part) == until[k]
    ]
    order = order[: min(ends, default=order.size) + 1]
    return joined[order], values[order]


def _next(path: Path, layer: int, size: int) -> NDArray[np.float64]:
    """Return the gains of the next weights of a layer."""
    begin = int(path.taken[layer])
    return path.heads[layer][begin : begin + size].astype(np.float64)


def _gain_after(path: Path, layer: int, size: int) -> float:
    """Return the gain of the weight that follows the next `size` ones of a layer, −1 where there is none."""
    position = int(path.taken[layer]) + size
    return float(path.heads[layer][position]) if position < len(path.heads[layer]) else -1.0
