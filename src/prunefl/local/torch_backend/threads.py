"""With how many threads torch and the kernels compute."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def set_threads(count: int) -> None:
    """Compute with so many threads from now on, in the whole process."""
    torch.set_num_threads(count)


@contextmanager
def running_threads(count: int) -> Iterator[None]:
    """Compute with so many threads, for the whole process."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
