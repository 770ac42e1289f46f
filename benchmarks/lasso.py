"""What PruneTrain's group lasso adds to a step: both timed in turn, one thread, medians. python benchmarks/lasso.py"""

import statistics
import time
from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from prunefl.methods.prunetrain import lasso_gradient
from prunefl.models.build import build

MODELS = {"conv2": (62, (1, 28, 28)), "vgg11": (10, (3, 32, 32)), "lenet300100": (10, (1, 28, 28))}
BATCH, REPEATS = 20, 25


def seconds(work: Callable[[], None]) -> float:
    """Return how long it takes once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print, for each network, a dense step, the lasso's gradient of all its layers, and their ratio."""
    torch.set_num_threads(1)
    for name, (classes, shape) in MODELS.items():
        model = build(name, classes=classes, input_shape=shape, seed=0)
        samples, labels = torch.randn(BATCH, *shape), torch.randint(classes, (BATCH,))
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
        layers = [p.detach().numpy() for p in model.parameters() if p.ndim > 1]

        def step(model=model, samples=samples, labels=labels, optimiser=optimiser) -> None:  # type: ignore[no-untyped-def]
            optimiser.zero_grad()
            cross_entropy(model(samples), labels).backward()
            optimiser.step()

        def lasso(layers=layers) -> None:  # type: ignore[no-untyped-def]
            for weight in layers:
                # its sum with the loss's gradient is part of it
                weight + lasso_gradient(weight)

        step(), lasso()
        pairs = [(seconds(step), seconds(lasso)) for _ in range(REPEATS)]
        ratio = statistics.median(b / a for a, b in pairs)
        plain, extra = (1e3 * statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:12} step {plain:7.1f} ms  lasso {extra:7.1f} ms  share {ratio:.2f}")


if __name__ == "__main__":
    main()
