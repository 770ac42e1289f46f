"""Profile a device with one model: vary one layer, keep the others, time whole training steps.

Whole steps and not layers alone: neighbouring layers share buffers, caches and orders of data, and it is whole
steps that a round consists of.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.network import count_uses
from prunefl.local.torch_backend.threads import running_threads
from prunefl.measure.profile.fit import Fit, fit_line
from prunefl.measure.profile.step import Batch, random_batch, random_masks, step_seconds, training_step

OTHERS = 0.03
"""Density of the layers that stand still: low, so that the one that varies stands out."""
CALM = 0.25
"""Quantile of the times that a layer's line goes through: other programs only ever make a step longer."""
FIRST_LOOK = (0.02, 0.1, 0.3)
CHECKED = (0.03, 0.07, 0.15, 0.25)
"""Densities of whole models by which the constant is found (the outer ones) and the prediction checked."""
POINTS = 10


@dataclass(frozen=True)
class Task:
    """What is profiled.

    Attributes:
        names: the prunable weights, in the model's order.
        progress: told what is done and how much is left, as a share.
    """

    model: nn.Module
    names: Sequence[str]
    input_shape: tuple[int, ...]
    classes: int
    batch_size: int = 20
    threads: int = 1
    repeats: int = 15
    progress: Callable[[str, float], None] = field(default=lambda text, share: None)


@dataclass(frozen=True)
class LayerProfile:
    """Whole steps while one layer varies: (live weights, seconds) below break-even, the line, the dense form."""

    name: str
    weights: int
    points: tuple[tuple[int, float], ...]
    line: Fit
    with_dense: float
    at_rest: float

    @property
    def break_even(self) -> float:
        """Density above which the dense form is cheaper; above 1 it never is."""
        if self.line.per_weight == 0:
            return 0.0 if self.with_dense < self.line.fixed else float("inf")
        return max(0.0, (self.with_dense - self.line.fixed) / self.line.per_weight / self.weights)


@dataclass(frozen=True)
class Check:
    """A whole step at a density that no layer was fitted on."""

    density: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """How far off the prediction is, as a share of what was measured."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Profile:
    """What was measured; seconds of one training step.

    Attributes:
        constant: of a step outside the prunable layers.
        dense_step: of the whole dense model.
        importance_extra: density -> what collecting the importance adds to a step.
        dense_importance_extra: the same for the dense model.
        checks: predictions of whole steps against measurements.
        overhead: seconds of a round beside its steps: putting a state into the model and taking it out.
    """

    layers: tuple[LayerProfile, ...]
    constant: float
    dense_step: float
    importance_extra: Mapping[float, float]
    dense_importance_extra: float
    checks: tuple[Check, ...]
    overhead: float
    batch_size: int
    threads: int


def profile(task: Task) -> Profile:
    """Return the profile of this device; takes some hundreds of training steps."""
    with running_threads(task.threads):
        return _profile(task)


def _profile(task: Task) -> Profile:
    batch = random_batch(task.batch_size, task.input_shape, task.classes)
    where = {n: sum(u) for n, u in count_uses(task.model, task.input_shape, task.names).items()}
    layers: list[LayerProfile] = []
    twins: dict[tuple[torch.Size, int], LayerProfile] = {}
    for k, name in enumerate(task.names):
        task.progress(name, k / (len(task.names) + 1))
        kind = _sizes(task)[name], where[name]
        # equal layers cost the same, and deep networks are made of few kinds
        twins[kind] = replace(twins[kind], name=name) if kind in twins else _one_layer(task, batch, name)
        layers.append(twins[kind])
    task.progress("whole steps", len(task.names) / (len(task.names) + 1))
    whole, extra = _whole_steps(task, batch)
    offsets = {
        density: seconds - layered(layers, density) for density, seconds in whole.items() if density < 1
    }
    # the constant from every second density, so that the others are a test of it
    found = [offsets[density] for density in CHECKED[::2]]
    constant = max(0.0, sum(found) / len(found))
    checks = [Check(d, constant + layered(layers, d), whole[d]) for d in CHECKED[1::2]]
    task.progress("done", 1.0)
    dense_extra = extra.pop(1.0)
    return Profile(
        tuple(layers),
        constant,
        whole[1.0],
        extra,
        dense_extra,
        tuple(checks),
        _overhead(task),
        task.batch_size,
        task.threads,
    )


def layered(layers: Iterable[LayerProfile], density: float) -> float:
    """Return the seconds that the sparse layers take beyond the constant, all at one density."""
    return sum(layer.line.per_weight * max(1, round(density * layer.weights)) for layer in layers)


def _sizes(task: Task) -> dict[str, torch.Size]:
    parameters = dict(task.model.named_parameters())
    return {name: parameters[name].shape for name in task.names}


def _variant(task: Task, batch: Batch, densities: Mapping[str, float]) -> Callable[[], None]:
    """Return a step of the model at these densities; a layer at density 1 is a plain dense one."""
    masks = random_masks(_sizes(task), densities)
    return training_step(sparse.sparsify(task.model, masks, choose="sparse"), batch)


def _one_layer(task: Task, batch: Batch, name: str) -> LayerProfile:
    """Return how a step's time goes with the density of one layer."""
    rest = dict.fromkeys(task.names, OTHERS)
    weights = _sizes(task)[name].numel()

    def times(densities: Iterable[float], repeats: int) -> dict[float, float]:
        return step_seconds({d: _variant(task, batch, {**rest, name: d}) for d in densities}, repeats, CALM)

    look = times((*FIRST_LOOK, 1.0), max(3, task.repeats // 3))
    densities = _below_break_even(weights, look)
    found = times((*densities, OTHERS, 1.0), task.repeats)
    points = [(max(1, round(d * weights)), found[d]) for d in densities]
    return LayerProfile(name, weights, tuple(points), _line(points), found[1.0], found[OTHERS])


def _below_break_even(weights: int, look: Mapping[float, float]) -> list[float]:
    """Return densities to measure: evenly spaced up to where the dense form becomes cheaper."""
    line = (
        fit_line([d for d in look if d < 1], [s for d, s in look.items() if d < 1]) if weights >= 50 else None
    )
    top = 0.9
    if line is not None and line.per_weight > 0:
        top = min(max((look[1.0] - line.fixed) / line.per_weight, 0.15), 0.9)
    low = 0.01
    # evenly between the ends, and never on the densities by which the prediction is checked
    return [low + (0.97 * top - low) * k / (POINTS - 1) for k in range(POINTS)]


def _line(points: Sequence[tuple[int, float]]) -> Fit:
    """Return the fitted line; a layer too small to vary has a flat one."""
    if len({live for live, _ in points}) < 3:
        return Fit(sum(seconds for _, seconds in points) / len(points), 0.0, 1.0)
    return fit_line([live for live, _ in points], [seconds for _, seconds in points])


def _whole_steps(task: Task, batch: Batch) -> tuple[dict[float, float], dict[float, float]]:
    """Return the seconds of steps of the whole model by density, and what collecting the importance adds."""
    steps: dict[tuple[float, bool], Callable[[], None]] = {}
    for density in (*CHECKED, 1.0):
        masks = random_masks(_sizes(task), dict.fromkeys(task.names, density), seed=1)
        for collect in (False, True):
            model = sparse.sparsify(task.model, masks, choose="sparse")
            sums = _empty_sums(task.model) if collect else None
            steps[density, collect] = training_step(model, batch, sums)
    found = step_seconds(steps, task.repeats)
    ordinary = {density: found[density, False] for density in (*CHECKED, 1.0)}
    return ordinary, {d: max(0.0, found[d, True] - found[d, False]) for d in (*CHECKED, 1.0)}


def _overhead(task: Task) -> float:
    """Return the seconds of loading a state into a pruned model and reading it back."""
    model = sparse.sparsify(task.model, random_masks(_sizes(task), dict.fromkeys(task.names, OTHERS)))
    state = sparse.state_of(model)

    def exchange() -> None:
        sparse.load_state(model, state)
        sparse.state_of(model)

    return step_seconds({"exchange": exchange}, task.repeats)["exchange"]


def _empty_sums(model: nn.Module) -> dict[str, Tensor]:
    return {name: torch.zeros_like(p) for name, p in model.named_parameters()}
