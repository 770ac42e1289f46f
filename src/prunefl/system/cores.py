"""How many cores there are for us."""

import os


def cores() -> int:
    """Return how many cores this process may use; a container often gives it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
