"""What packing costs beside the training of a round: Conv-2 at 10 % density, batch 20, five sparse steps, one thread.

Prints processor milliseconds (the best of many, so that other programs on the machine count little) of the steps, of
packing plus unpacking values only, and of the same with a new mask: coded, or as a change of 5 %.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import time
from collections.abc import Callable

import torch

from prunefl import models, wire
from prunefl.core import masks as pattern
from prunefl.local import torch_backend as sparse
from prunefl.measure.bench.wire import swapped

DENSITY, BATCH, LOCAL_STEPS = 0.1, 20, 5


def best_ms(
    prepare: Callable[[], pattern.Masks], work: Callable[[pattern.Masks], object], repeats: int
) -> float:
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
    generator = torch.Generator().manual_seed(0)
    model = models.conv2()
    full = pattern.full_masks(model, pattern.prunable_names(model))
    masks = {name: torch.rand(mask.shape, generator=generator) < DENSITY for name, mask in full.items()}
    before = {name: swapped(mask, generator) for name, mask in masks.items()}
    template = wire.Template.of(model, list(masks))
    known = {pattern.digest(masks): masks, pattern.digest(before): before}
    trained = sparse.sparsify(model, masks, choose="sparse")
    state = sparse.state_of(trained)
    optimiser = torch.optim.SGD(trained.parameters(), lr=0.01)
    images, labels = torch.rand(BATCH, 1, 28, 28), torch.randint(0, 62, (BATCH,))

    def steps(_: pattern.Masks) -> None:
        for _step in range(LOCAL_STEPS):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(trained(images), labels).backward()
            optimiser.step()

    def standing() -> pattern.Masks:
        return masks

    def new() -> pattern.Masks:  # a copy, so that nothing about it is remembered
        return {name: mask.clone() for name, mask in masks.items()}

    def through(base: pattern.Masks | None, kind: str) -> Callable[[pattern.Masks], object]:
        return lambda sent: wire.unpack(wire.pack(state, sent, known=base, kind=kind), template, known)

    print(f"five steps   {best_ms(standing, steps, 25)} ms")
    print(f"values only  {best_ms(standing, through(masks, 'values'), 200)} ms")
    print(f"coded mask   {best_ms(new, through(None, 'coded'), 60)} ms")
    print(f"mask change  {best_ms(new, through(before, 'change'), 60)} ms")


if __name__ == "__main__":
    main()
