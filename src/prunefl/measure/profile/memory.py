"""Peak memory of a training step, measured in a fresh process: what the model and its step add to the program.

Run as `python -m prunefl.measure.profile.memory JOB`, JOB being the JSON of a `Job`; prints one JSON number of bytes.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prunefl.devices import StepMemory
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import look_in_working_folder, program

if TYPE_CHECKING:
    from torch import nn

FREE_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""glibc gives freed blocks back to the system, so that the peak is that of the step and not of the set-up."""
STEPS = 3
DENSITIES = (0.02, 0.1)


@dataclass(frozen=True)
class Job:
    """A model by name at one density; density 1 is the plain dense model."""

    model: str
    classes: int
    input_shape: tuple[int, ...]
    batch_size: int
    density: float


def measure(
    model: str, classes: int, input_shape: tuple[int, ...], batch_size: int, weights: int
) -> StepMemory | None:
    """Return the memory of a dense and of a sparse step; None where the system does not tell (not Linux)."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    dense, low, high = (
        step_bytes(Job(model, classes, input_shape, batch_size, density)) for density in (1.0, *DENSITIES)
    )
    slope = max(0.0, (high - low) / ((DENSITIES[1] - DENSITIES[0]) * weights))
    return StepMemory(dense, max(0, int(low - slope * DENSITIES[0] * weights)), slope)


def step_bytes(job: Job) -> int:
    """Return the peak bytes of some steps of this job, in a process of its own."""
    environment = {**os.environ, **FREE_AT_ONCE, "OMP_NUM_THREADS": "1"}
    command = [*program("prunefl.measure.profile.memory"), json.dumps(asdict(job))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PruneFLError(f"the memory of {job.model} could not be measured: {reason}")
    return int(json.loads(done.stdout))


def main(text: str) -> None:
    """Measure one job in this process."""
    import torch

    from prunefl.measure.profile.step import random_batch, training_step
    from prunefl.models import build

    job = Job(**json.loads(text))
    shape = tuple(job.input_shape)
    _warm_up()
    before = _status("VmRSS")
    model = build(job.model, classes=job.classes, input_shape=shape, seed=0)
    if job.density < 1:
        model = _pruned(model, job.density)
    batch = random_batch(job.batch_size, shape, job.classes)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    step = training_step(model, batch)
    torch.set_num_threads(1)
    for _ in range(STEPS):
        step()
    print(json.dumps(max(0, _status("VmHWM") - before)))


def _pruned(model: "nn.Module", density: float) -> "nn.Module":
    """Return the sparse model; the dense one is forgotten."""
    from prunefl.local import torch_backend as sparse
    from prunefl.local.torch_backend.network import prunable_names
    from prunefl.measure.profile.step import random_masks

    names = prunable_names(model)
    sizes = {name: model.get_parameter(name).shape for name in names}
    return sparse.sparsify(model, random_masks(sizes, dict.fromkeys(names, density)), choose="sparse")


def _warm_up() -> None:
    """Load what torch loads at its first step: it is the program's, not the model's."""
    from torch import nn

    from prunefl.measure.profile.step import random_batch, training_step

    layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    training_step(layers, random_batch(2, (1, 8, 8), 3))()
    training_step(_pruned(layers, 0.5), random_batch(2, (1, 8, 8), 3))()


def _status(key: str) -> int:
    """Return a size in bytes from /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"/proc/self/status has no {key}")


if __name__ == "__main__":
    look_in_working_folder()
    main(sys.argv[1])
