"""How long a reconfiguration takes, against the one sort that it replaces."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from prunefl.core.masks import Masks
from prunefl.core.reconfigure import reconfigure
from prunefl.core.state import Array, SparseState
from prunefl.core.time_model import LinearTime
from prunefl.system.errors import PruneFLError

LAYERS = 8
MOST_WEIGHTS = 2**30


@dataclass(frozen=True)
class Timing:
    """Median seconds of a whole reconfiguration, and of one `torch.sort` of as many floats, in the same run."""

    weights: int
    seconds: float
    sort_seconds: float
    repeats: int
    threads: int


def measure(weights: int, repeats: int = 5, seed: int = 0) -> Timing:
    """Return how long it takes to choose the prunable set and the next masks of so many weights."""
    if not LAYERS <= weights <= MOST_WEIGHTS:
        raise PruneFLError(f"weights={weights}, must be between {LAYERS} and {MOST_WEIGHTS}")
    if repeats < 1:
        raise PruneFLError(f"repeats={repeats}, must be >= 1")
    source = torch.Generator().manual_seed(seed)
    state, importance = _model(weights, source)
    model = LinearTime(10.0, {name: 1e-6 * (1 + k % 3) for k, name in enumerate(state.masks)})
    floats = torch.randn(weights, generator=source)
    pairs = []
    for _ in range(repeats + 1):  # in turns, so that a busy moment of the machine strikes both
        choosing = _seconds(lambda: reconfigure(state, importance, model, fraction=0.3, fixed_gain=1.0))
        pairs.append((choosing, _seconds(lambda: torch.sort(floats))))
    chosen, sort = zip(*pairs[1:], strict=True)
    return Timing(
        weights, statistics.median(chosen), statistics.median(sort), repeats, torch.get_num_threads()
    )


def _model(weights: int, source: torch.Generator) -> tuple[SparseState, dict[str, Array]]:
    """Return state and importance of a model of layers from small to large, a third of it live."""
    shares = [2**k for k in range(LAYERS)]
    sizes = [max(1, weights * share // sum(shares)) for share in shares]
    sizes[-1] += weights - sum(sizes)
    names = [f"layer{k}.weight" for k in range(LAYERS)]
    masks = Masks(
        {n: torch.rand(s, generator=source).numpy() < 1 / 3 for n, s in zip(names, sizes, strict=True)}
    )
    values = {n: torch.randn(m.size, generator=source).numpy() for n, m in masks.items()}
    importance = {n: np.square(torch.randn(m.size, generator=source).numpy()) for n, m in masks.items()}
    return SparseState.from_dense(values, masks), importance


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
