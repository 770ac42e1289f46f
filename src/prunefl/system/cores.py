"""How many cores there are for us, and how many workers that makes."""

import os


def cores() -> int:
    """Return how many cores this process may use; a container often gives it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_workers(asked: int) -> int:
    """Return how many compute at once: as many as asked for, or one a core."""
    return asked or cores()
