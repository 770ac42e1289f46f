"""At which density a layer computes faster densely: measured once on this machine, then remembered.

Runs of one configuration must give the same bits, and dense and sparse sums differ in the last of them: so a run
records what it went by, and a resumed one goes by that, on whatever machine.
"""

import hashlib
import json
import statistics
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from prunefl import _kernels
from prunefl.core.masks import Mask
from prunefl.local.torch_backend.layer import SparseLayer
from prunefl.local.torch_backend.optimiser import SGD
from prunefl.local.torch_backend.spec import LinearSpec, Spec
from prunefl.system.files import cache_folder, write_first
from prunefl.system.machine import describe_processor
from prunefl.system.version import VERSION

USUAL = {"linear": 0.6, "conv": 0.65}
"""Where no measurement is at hand: the lower end of what was measured (docs/kernels.md)."""

HYSTERESIS = 0.1
"""A layer changes sides only when the density is past the break-even by this fraction of it."""

LEAST = {"linear": 0.6, "conv": 0.3}
"""Below this no measurement counts: alone, a small layer's time is Python's, which a run of layers shares."""

MEASURED_AT = (0.2, 0.6)
REPEATS = 7


def computes_sparsely(density: float, even: float, was_sparse: bool | None) -> bool:
    """Return whether a layer of this density should compute sparsely.

    Args:
        even: the break-even density.
        was_sparse: how it computes now; None if it was not pruned yet.
    """
    if was_sparse is not None:
        even *= 1 + HYSTERESIS if was_sparse else 1 - HYSTERESIS
    return density <= even


@dataclass(frozen=True)
class BreakEven:
    """The break-even densities that a run goes by; one that is not there yet is measured, or was on this machine."""

    densities: MutableMapping[str, float]

    def density(self, spec: Spec, size: tuple[int, ...] | None) -> float:
        """Return the density below which a layer should compute sparsely.

        Args:
            size: shape of the layer's input, batch included; None takes the usual value.
        """
        if size is None:
            return USUAL[_kind(spec)]
        layer = f"{spec}; {size}; {torch.get_num_threads()} threads"
        if layer not in self.densities:
            self.densities[layer] = _of_this_machine(layer, spec, size)
        return self.densities[layer]


def _of_this_machine(layer: str, spec: Spec, size: tuple[int, ...]) -> float:
    """Return what was measured here before, by this version on this CPU, or is measured now."""
    key = "; ".join((layer, *_machine()))
    name = hashlib.blake2b(key.encode(), digest_size=12).hexdigest()
    path = cache_folder() / "break-even" / f"{name}.json"
    if not path.exists():
        write_first(path, json.dumps({"layer": key, "density": round(_measured(spec, size), 3)}).encode())
    return float(json.loads(path.read_text())["density"])


def surely_sparse(spec: Spec, density: float, was_sparse: bool | None) -> bool:
    """Return whether the layer computes sparsely whatever a measurement would say."""
    return computes_sparsely(density, LEAST[_kind(spec)], was_sparse)


def _kind(spec: Spec) -> str:
    return "linear" if isinstance(spec, LinearSpec) else "conv"


@cache
def _machine() -> tuple[str, ...]:
    """Return what the measurement depends on besides the layer."""
    return describe_processor(), _kernels.path(), torch.__version__, VERSION


def _measured(spec: Spec, size: tuple[int, ...]) -> float:
    """Return the density at which a sparse step takes as long as a dense one, at most 1."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, generator=generator)
    dense = _seconds(dense_step(spec, x))
    shape = spec.layer(bias=True).weight.shape
    low, high = MEASURED_AT
    times = []
    for density in MEASURED_AT:
        mask = (torch.rand(shape, generator=generator) < density).numpy()
        times.append(_seconds(sparse_step(spec, x, mask)))
    # A sparse step takes a + b·density
    slope = max((times[1] - times[0]) / (high - low), 1e-12)
    return min(1.0, max(LEAST[_kind(spec)], low + (dense - times[0]) / slope))


def dense_step(spec: Spec, x: Tensor) -> Callable[[], None]:
    """Return one training step of the plain layer."""
    layer = spec.layer(bias=True).to_empty(device="cpu")
    # Drawn from no generator: a run must not change the caller's, nor do so only where nothing is measured yet.
    torch.nn.init.constant_(layer.weight, 0.01)
    torch.nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return _step(layer, SGD(layer.parameters(), 1e-6), x.clone())


def sparse_step(spec: Spec, x: Tensor, mask: Mask) -> Callable[[], None]:
    """Return one training step of the sparse layer, on activations as its neighbours leave them."""
    layer = SparseLayer(spec, torch.full(mask.shape, 0.01), torch.zeros(mask.shape[0]), mask)
    ours = x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2) if x.dim() == 4 else x.clone()
    return _step(layer, SGD(layer.parameters(), 1e-6), ours)


def _step(layer: torch.nn.Module, optimiser: SGD, x: Tensor) -> Callable[[], None]:
    """Return a function that trains a layer for one step, input gradient included."""
    x.requires_grad_()
    with torch.no_grad():
        gradient = torch.ones_like(layer(x))

    def step() -> None:
        optimiser.zero_grad()
        x.grad = None
        layer(x).backward(gradient)
        optimiser.step()

    return step


def _seconds(step: Callable[[], None]) -> float:
    """Return the median duration."""
    step()
    durations = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        step()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)
