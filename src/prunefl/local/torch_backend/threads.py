"""How many threads compute, and with how many torch and the kernels do within each."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from prunefl.system.cores import cores


def workers(asked: int) -> int:
    """Return how many clients compute at once: as many as asked for, or one a core."""
    return asked or cores()


@contextmanager
def running_threads(count: int) -> Iterator[None]:
    """Compute with so many threads, for the whole process."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
