"""One training step, timed: several variants of a model take turns, so that a busy moment strikes all alike."""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from prunefl.local import torch_backend as sparse

Key = TypeVar("Key", bound=Hashable)

LEAST_REPEATS = 3
PATIENCE = 20.0
"""Seconds after which so few repeats must do: large models take their time."""


@dataclass(frozen=True)
class Batch:
    """Random samples of the right shape: the time of a step does not depend on what is in them."""

    inputs: Tensor
    labels: Tensor


def random_batch(size: int, input_shape: tuple[int, ...], classes: int, seed: int = 0) -> Batch:
    """Return a batch of noise with random labels."""
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, *input_shape, generator=source)
    return Batch(inputs, torch.randint(classes, (size,), generator=source))


def random_masks(
    sizes: Mapping[str, torch.Size], densities: Mapping[str, float], seed: int = 0
) -> dict[str, Tensor]:
    """Return masks of exactly these densities, the live positions drawn at random."""
    masks = {}
    for k, (name, shape) in enumerate(sizes.items()):
        count = max(1, round(densities[name] * shape.numel()))
        source = torch.Generator().manual_seed(1000 * seed + k)
        mask = torch.zeros(shape.numel(), dtype=torch.bool)
        mask[torch.randperm(shape.numel(), generator=source)[:count]] = True
        masks[name] = mask.reshape(shape)
    return masks


def training_step(
    model: nn.Module, batch: Batch, sums: dict[str, Tensor] | None = None
) -> Callable[[], None]:
    """Return a function that trains one step; with `sums` one that also collects the importance."""
    optimizer = sparse.SGD(model.parameters(), lr=1e-4)  # small: hundreds of steps on noise must not diverge
    model.train()

    def step() -> None:
        with sparse.collect_gradients(model, sums, mode="square"):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch.inputs), batch.labels)
            loss.backward()
            optimizer.step()

    return step


def step_seconds(
    steps: Mapping[Key, Callable[[], None]], repeats: int, quantile: float = 0.5
) -> dict[Key, float]:
    """Return the median seconds of each step (or another quantile), after a warm-up.

    With one thread these are its seconds on the processor: what else the machine does then counts little.
    """
    now = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    for step in steps.values():
        step()  # buffers are made at the first step
    started = time.perf_counter()
    taken: dict[Key, list[float]] = {key: [] for key in steps}
    for done in range(repeats):
        if done >= LEAST_REPEATS and time.perf_counter() - started > PATIENCE:
            break
        for key, step in steps.items():
            begin = now()
            step()
            taken[key].append(now() - begin)
    return {key: float(np.quantile(times, quantile)) for key, times in taken.items()}
