"""Every layer's training step, sparse against dense, and the density at which the two are level."""

import torch

from prunefl.local.torch_backend.breakeven import dense_step, sparse_step
from prunefl.local.torch_backend.convert import input_sizes
from prunefl.local.torch_backend.spec import Spec, spec_of
from prunefl.local.torch_backend.threads import running_threads
from prunefl.measure.bench.step import (
    check_settings,
    random_batch,
    take_turns,
    task_named,
)


def bench_layers(
    model: str, density: float, threads: int = 1, batch: int = 20, seconds: float = 1.0, seed: int = 0
) -> list[dict[str, object]]:
    """Return for each distinct Linear and Conv2d how long its step takes, dense and sparse.

    Args:
        seconds: how long to measure each layer.
    """
    task = task_named(model)
    check_settings(density, threads, batch, seconds)
    rows: dict[tuple[Spec, tuple[int, ...]], dict[str, object]] = {}
    with running_threads(threads):
        torch.manual_seed(seed)
        network = task.build()
        sizes = input_sizes(network, random_batch(task, batch)[0])
        for name, module in network.named_modules():
            if module in sizes and (key := (spec_of(module), sizes[module])) not in rows:
                rows[key] = {"layer": name, "input": list(sizes[module]), **_row(*key, density, seconds)}
    return list(rows.values())


def _row(spec: Spec, size: tuple[int, ...], density: float, seconds: float) -> dict[str, object]:
    """Return the timings of one layer."""
    mask = (torch.rand(spec.layer(bias=True).weight.shape) < density).numpy()
    x = torch.randn(size)
    steps = {"dense": dense_step(spec, x), "sparse": sparse_step(spec, x, mask)}
    timings = take_turns(steps, seconds)
    return {
        **{f"{name}_ms": round(timing.median, 4) for name, timing in timings.items()},
        **{f"{name}_low_ms": round(timing.quartiles[0], 4) for name, timing in timings.items()},
        **{f"{name}_high_ms": round(timing.quartiles[1], 4) for name, timing in timings.items()},
        "speedup": round(timings["dense"].median / timings["sparse"].median, 3),
    }
