"""What each optimiser costs beside plain SGD: whole steps of one sparse model, by torch and by plan, taking turns."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from prunefl.config.optimiser import PLAIN_SGD, OptimiserSettings
from prunefl.local.torch_backend import sparsify
from prunefl.local.torch_backend.adam import make_optimiser
from prunefl.local.torch_backend.threads import running_threads
from prunefl.measure.bench.step import (
    RATE,
    Step,
    check_settings,
    native_step,
    random_batch,
    random_masks,
    take_turns,
    task_named,
    training_step,
)

OPTIMISERS: Mapping[str, OptimiserSettings] = {
    "sgd": PLAIN_SGD,
    "momentum": OptimiserSettings(momentum=0.9),
    "nesterov": OptimiserSettings(momentum=0.9, nesterov=True),
    "momentum, decay": OptimiserSettings(momentum=0.9, weight_decay=5e-4),
    "sgd, clipped": OptimiserSettings(clip_norm=1.0),
    "fedprox": OptimiserSettings(proximal=0.01),
    "adam": OptimiserSettings(name="adam"),
    "adamw": OptimiserSettings(name="adamw", weight_decay=0.01),
}
"""By the name that is shown; the first is what the others are compared with."""


def bench_optimisers(
    model: str, density: float, threads: int = 1, batch: int = 20, seconds: float = 8.0, seed: int = 0
) -> dict[str, object]:
    """Return the median milliseconds of a step with each optimiser, and how much longer than plain SGD's it is.

    Args:
        density: of every prunable layer, uniformly random; 1 trains the full network.
        seconds: how long to measure, all together.
    """
    task = task_named(model)
    check_settings(density, threads, batch, seconds)
    with running_threads(threads):
        torch.manual_seed(seed)
        dense, data = task.build(), random_batch(task, batch)
        masks = random_masks(dense, density, seed)
        sparse = sparsify(dense, masks, example=data[0])
        steps = {("torch", name): _step(sparse, settings, data) for name, settings in OPTIMISERS.items()}
        for name, settings in OPTIMISERS.items():
            if native := native_step(dense, masks, task, data, threads, settings):
                steps["native", name] = native
        timings = take_turns(steps, seconds)
    medians = {key: timing.median for key, timing in timings.items()}
    return {
        "model": model,
        "density": density,
        "threads": threads,
        "batch": batch,
        "optimisers": [
            {
                "backend": backend,
                "optimiser": name,
                "ms": round(median, 4),
                "over_sgd": round(median / medians[backend, "sgd"] - 1, 4),
            }
            for (backend, name), median in medians.items()
        ],
    }


def _step(model: nn.Module, settings: OptimiserSettings, data: tuple[Tensor, Tensor]) -> Step:
    """Return a function that trains a copy of the model for one step."""
    own = copy.deepcopy(model)
    optimiser = make_optimiser(settings, own.parameters(), RATE)
    if settings.proximal:
        optimiser.anchors = {parameter: parameter.detach().clone() for parameter in own.parameters()}
    return training_step(own, optimiser, data)
