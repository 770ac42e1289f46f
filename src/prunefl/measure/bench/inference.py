"""Inference time of a pruned network against the dense one (the paper's inference figure)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from prunefl import models
from prunefl.config.networks import NETWORKS, find_network
from prunefl.export.inference import load, model_file
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.network import prunable_names
from prunefl.system.errors import PruneFLError
from prunefl.wire.model_file import About, load_model


@dataclass(frozen=True)
class Timing:
    """Seconds to classify all samples, each the best of its repetitions."""

    density: float
    sparse_seconds: float
    dense_seconds: float


def measure(name: str, densities: Sequence[float], samples: int, repeats: int) -> list[Timing]:
    """Return the time of classifying the samples in one batch, for random masks of each density.

    Dense and sparse take turns, so that a disturbance of the machine meets both.
    """
    name = find_network("--model", name)
    classes, shape = NETWORKS[name].classes, NETWORKS[name].input_shape
    generator = torch.Generator().manual_seed(0)
    model = models.build(name, classes=classes, input_shape=shape, seed=0).eval()
    inputs = torch.rand(samples, *shape, generator=generator)
    return [
        _timing(model, _masks(model, density, generator), density, inputs, repeats) for density in densities
    ]


def measure_run(run: Path, samples: int, repeats: int) -> tuple[About, Timing]:
    """Return what a run's final model is of, and the time of classifying the samples with it, as it was pruned."""
    state, about = load_model(model_file(run))
    pruned = load(run)
    inputs = torch.rand(samples, *about.input_shape, generator=torch.Generator().manual_seed(0))
    return about, _turns(pruned, state.masks.density, inputs, repeats)


def _masks(model: nn.Module, density: float, generator: torch.Generator) -> dict[str, Tensor]:
    """Return random masks, the same density in each layer."""
    if not 0.0 < density <= 1.0:
        raise PruneFLError(f"--density {density}, must be > 0 and <= 1")
    parameters = dict(model.named_parameters())
    names = prunable_names(model)
    return {name: torch.rand(parameters[name].shape, generator=generator) < density for name in names}


def _timing(
    model: nn.Module, masks: dict[str, Tensor], density: float, inputs: Tensor, repeats: int
) -> Timing:
    """Return the times of a network pruned by these masks."""
    return _turns(sparse.sparsify(model, masks).eval(), density, inputs, repeats)


def _turns(pruned: nn.Module, density: float, inputs: Tensor, repeats: int) -> Timing:
    """Return the best time of a pruned network and of its dense twin, after one run that is not counted."""
    dense = sparse.densify(pruned).eval()
    times: dict[nn.Module, list[float]] = {pruned: [], dense: []}
    with torch.inference_mode():
        for _ in range(repeats + 1):
            for network, seen in times.items():
                started = time.perf_counter()
                network(inputs)
                seen.append(time.perf_counter() - started)
    return Timing(density, min(times[pruned][1:]), min(times[dense][1:]))
