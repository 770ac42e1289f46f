"""What packing costs beside the training of a round: Conv-2 at 10 % density, batch 20, five sparse steps, one thread.

Prints processor milliseconds (the best of many, so that other programs on the machine count little) of the steps, of
packing plus unpacking values only, and of the same with a new mask: coded, or as a change of 5 %.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import time
from collections.abc import Callable

import numpy as np
import torch

from prunefl import models, wire
from prunefl.core.masks import Masks
from prunefl.core.state import SparseState
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.network import network_of
from prunefl.measure.bench.wire import swap

DENSITY, BATCH, LOCAL_STEPS = 0.1, 20, 5
INPUT_SHAPE, CLASSES = (1, 28, 28), 62


def best_ms(prepare: Callable[[], SparseState], work: Callable[[SparseState], object], repeats: int) -> float:
    """Return the least processor time of the work, its preparation not counted."""
    least = float("inf")
    for _ in range(repeats):
        given = prepare()
        start = time.thread_time()
        work(given)
        least = min(least, time.thread_time() - start)
    return round(1000 * least, 2)


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    network = network_of(models.conv2(), INPUT_SHAPE, CLASSES)
    layers = network.template.layers
    masks = Masks({name: rng.random(shape) < DENSITY for name, shape in layers.items()})
    before = Masks({name: swap(mask, rng) for name, mask in masks.items()})
    known = {masks.digest: masks, before.digest: before}
    state = network.first.remask(masks)
    trained = sparse.sparsify(network.module, masks, choose="sparse")
    optimiser = torch.optim.SGD(trained.parameters(), lr=0.01)
    images, labels = torch.rand(BATCH, *INPUT_SHAPE), torch.randint(0, CLASSES, (BATCH,))

    def steps(_: SparseState) -> None:
        for _step in range(LOCAL_STEPS):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(trained(images), labels).backward()
            optimiser.step()

    def standing() -> SparseState:
        return state

    def new() -> SparseState:  # masks that nobody has counted yet
        return SparseState(state.values, Masks(masks))

    def through(base: Masks | None, kind: str) -> Callable[[SparseState], object]:
        return lambda sent: wire.unpack(wire.pack(sent, known=base, kind=kind), network.template, known)

    print(f"five steps   {best_ms(standing, steps, 25)} ms")
    print(f"values only  {best_ms(standing, through(masks, 'values'), 200)} ms")
    print(f"coded mask   {best_ms(new, through(None, 'coded'), 60)} ms")
    print(f"mask change  {best_ms(new, through(before, 'change'), 60)} ms")


if __name__ == "__main__":
    main()
