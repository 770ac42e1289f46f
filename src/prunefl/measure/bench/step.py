"""A training step of a sparse model against dense PyTorch: interleaved, medians with their spread."""

import copy
import itertools
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from prunefl import models
from prunefl.config.networks import NETWORKS, find_network
from prunefl.config.optimiser import PLAIN_SGD, OptimiserSettings
from prunefl.core.masks import Masks
from prunefl.local.native import PlanError
from prunefl.local.native.backend import NativeBackend
from prunefl.local.torch_backend import SGD, collect_gradients, sparsify
from prunefl.local.torch_backend.compile import compile_plan
from prunefl.local.torch_backend.network import network_of, prunable_names
from prunefl.local.torch_backend.threads import running_threads
from prunefl.system.errors import PruneFLError

Step = Callable[[], None]
Name = TypeVar("Name", bound=Hashable)
RATE = 1e-4
QUARTER, THREE_QUARTERS = 0.25, 0.75


@dataclass(frozen=True)
class Task:
    """A model and the shape of its samples."""

    build: Callable[[], nn.Module]
    input_shape: tuple[int, int, int]
    classes: int


SMALLER: Mapping[str, tuple[int, int, int]] = {"resnet18": (3, 64, 64)}
"""Samples that differ from the paper's: a step of its 168×168 would take a second."""


@dataclass
class Timings:
    """Durations of steps that took turns, in milliseconds."""

    milliseconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median duration."""
        return statistics.median(self.milliseconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The durations that a quarter and three quarters of the steps stay below."""
        ordered = sorted(self.milliseconds)
        last = len(ordered) - 1
        return ordered[round(QUARTER * last)], ordered[round(THREE_QUARTERS * last)]


def bench_step(
    model: str, density: float, threads: int = 1, batch: int = 20, seconds: float = 8.0, seed: int = 0
) -> dict[str, object]:
    """Return how long a dense and a sparse step take, forward, backward and SGD, and their ratio.

    Args:
        density: of every prunable layer, uniformly random.
        seconds: how long to measure.
    """
    task = task_named(model)
    check_settings(density, threads, batch, seconds)
    with running_threads(threads):
        torch.manual_seed(seed)
        dense, data = task.build(), random_batch(task, batch)
        masks = random_masks(dense, density, seed)
        sparse = sparsify(dense, masks, example=data[0])
        steps = {
            "dense": _fastest(dense_steps(dense, data)),
            "sparse": training_step(sparse, SGD(sparse.parameters(), RATE), data),
            "importance": importance_step(copy.deepcopy(sparse), masks, data),
        }
        if native := native_step(dense, masks, task, data, threads):
            steps["native"] = native
        if threads > 1:
            steps["sparse_one_thread"] = _with_one_thread(steps["sparse"])
        timings = take_turns(steps, seconds)
    medians = {name: timing.median for name, timing in timings.items()}
    return {
        "model": model,
        "density": density,
        "threads": threads,
        "batch": batch,
        **{f"{name}_ms": round(median, 4) for name, median in medians.items()},
        **{f"{name}_low_ms": round(timing.quartiles[0], 4) for name, timing in timings.items()},
        **{f"{name}_high_ms": round(timing.quartiles[1], 4) for name, timing in timings.items()},
        "speedup": round(medians["dense"] / medians["sparse"], 3),
        "native_speedup": round(medians["dense"] / medians["native"], 3) if native else None,
        "thread_speedup": round(medians.get("sparse_one_thread", medians["sparse"]) / medians["sparse"], 3),
        "steps": len(timings["dense"].milliseconds),
    }


def random_masks(model: nn.Module, density: float, seed: int) -> dict[str, Tensor]:
    """Return masks of all prunable weights, each live with probability `density`."""
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters())
    return {
        name: torch.rand(parameters[name].shape, generator=generator) < density
        for name in prunable_names(model)
    }


def training_step(
    model: nn.Module, optimiser: torch.optim.Optimizer, data: tuple[Tensor, Tensor], keep: bool = False
) -> Step:
    """Return a function that trains for one step.

    Args:
        keep: clear gradient buffers instead of giving them back.
    """
    images, labels = data

    def step() -> None:
        optimiser.zero_grad(set_to_none=not keep)
        functional.cross_entropy(model(images), labels).backward()
        optimiser.step()

    return step


def _with_one_thread(step: Step) -> Step:
    def alone() -> None:
        with running_threads(1):
            step()

    return alone


def importance_step(model: nn.Module, masks: Mapping[str, Tensor], data: tuple[Tensor, Tensor]) -> Step:
    """Return a function that trains for one step and adds up g² of all weights."""
    sums = {name: torch.zeros(mask.shape) for name, mask in masks.items()}
    step = training_step(model, SGD(model.parameters(), RATE), data)

    def collecting() -> None:
        with collect_gradients(model, sums):
            step()

    return collecting


def native_step(
    model: nn.Module,
    masks: Mapping[str, Tensor],
    task: Task,
    data: tuple[Tensor, Tensor],
    threads: int,
    optimiser: OptimiserSettings = PLAIN_SGD,
) -> Step | None:
    """Return a function that trains for one step by plan; None for a model that cannot be compiled."""
    network = network_of(model, task.input_shape, task.classes)
    try:
        plan = compile_plan(model, network.template, task.input_shape)
    except PlanError:
        return None
    backend = NativeBackend(plan, "cross_entropy", threads, optimiser)
    state = network.first.remask(Masks({name: mask.numpy() for name, mask in masks.items()}))
    backend.begin(anchor=state)
    backend.load(state)
    batch = [(data[0].numpy(), data[1].numpy())]

    def step() -> None:
        backend.steps(batch, RATE)

    return step


def dense_steps(model: nn.Module, data: tuple[Tensor, Tensor]) -> Iterator[Step]:
    """Yield dense PyTorch's step in all the ways that could be the fastest."""
    for keep, settings in itertools.product((False, True), ({}, {"fused": True}, {"foreach": True})):
        duplicate = copy.deepcopy(model)
        optimiser = torch.optim.SGD(duplicate.parameters(), RATE, **settings)
        yield training_step(duplicate, optimiser, data, keep)


def take_turns(steps: Mapping[Name, Step], seconds: float) -> dict[Name, Timings]:
    """Return the timings of steps that took turns for so long, at least five each.

    Quick steps go several times in their turn, so that the caches hold what a training loop would hold.
    """
    timings = {name: Timings() for name in steps}
    quickest = min(_milliseconds(step) for step in steps.values() for _ in range(2))
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(next(iter(timings.values())).milliseconds) < 5:
        for name, step in steps.items():
            step()
            for _ in range(max(1, min(20, int(20 / max(quickest, 1e-3))))):
                timings[name].milliseconds.append(_milliseconds(step))
    return timings


def _fastest(steps: Iterator[Step]) -> Step:
    """Return the step with the least median of a few."""
    timed = [(statistics.median(_milliseconds(step) for _ in range(6)), step) for step in steps]
    return min(timed, key=lambda pair: pair[0])[1]


def _milliseconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - start)


def random_batch(task: Task, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(size, *task.input_shape), torch.randint(0, task.classes, (size,))


def task_named(model: str) -> Task:
    name = find_network("--model", model)
    return Task(models.BUILDERS[name], SMALLER.get(name, NETWORKS[name].input_shape), NETWORKS[name].classes)


def check_settings(density: float, threads: int, batch: int, seconds: float) -> None:
    """Refuse settings that cannot be measured."""
    if not 0 < density <= 1:
        raise PruneFLError(f"--density {density}, must be above 0 and at most 1")
    for name, value in {"threads": threads, "batch": batch}.items():
        if value < 1:
            raise PruneFLError(f"--{name} {value}, must be >= 1")
    if not seconds > 0:
        raise PruneFLError(f"--seconds {seconds}, must be > 0")
