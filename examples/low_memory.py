"""Train where a full-size step does not fit: the same memory limit, once dense and once sparse.

    python examples/low_memory.py

The paper's low-power case (a Raspberry Pi 3 on which dense LeNet-300-100 dies and sparse trains) with Conv-2 and an
address-space limit: the program may take LIMIT_MB beside what it has after loading torch. Linux only.
"""

import gc
import os
import resource
import subprocess
import sys
from pathlib import Path

LIMIT_MB = 48
DENSITY = 0.05
STEPS = 5
# glibc gives freed memory back at once, so that building the model does not count as training it
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}


def address_space() -> int:
    """Return the bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def train(form: str) -> None:
    """Train a few steps of Conv-2 within the limit; raises when memory runs out."""
    import torch

    from prunefl import models
    from prunefl.local import torch_backend as sparse
    from prunefl.local.torch_backend.network import prunable_names

    def pruned(model: torch.nn.Module, density: float) -> torch.nn.Module:
        names = prunable_names(model)
        masks = {name: torch.rand(model.get_parameter(name).shape) < density for name in names}
        return sparse.sparsify(model, masks, choose="sparse")

    def step(model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
        optimizer = sparse.SGD(model.parameters(), lr=0.05)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    torch.manual_seed(0)
    inputs, labels = torch.rand(20, 1, 28, 28), torch.randint(62, (20,))
    # a small model first: what torch loads at its first step belongs to the program
    small = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(1352, 62))
    for warm in (small, pruned(small, 0.5)):
        step(warm, inputs, labels)
    program = address_space()
    model = models.build("conv2", classes=62, input_shape=(1, 28, 28), seed=0)
    if form == "sparse":
        model = pruned(model, DENSITY)
    gc.collect()
    resource.setrlimit(resource.RLIMIT_AS, (program + LIMIT_MB * 2**20, resource.RLIM_INFINITY))
    losses = [step(model, inputs, labels) for _ in range(STEPS)]
    print(f"{form}: {STEPS} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}")


def main() -> None:
    """Try both forms, each in a process of its own."""
    if len(sys.argv) == 2:
        train(sys.argv[1])
        return
    for form in ("dense", "sparse"):
        command = [sys.executable, __file__, form]
        done = subprocess.run(
            command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False
        )
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        print(done.stdout.strip() or f"{form}: dies within {LIMIT_MB} MB ({reason[:90]})")


if __name__ == "__main__":
    main()
