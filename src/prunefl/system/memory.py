"""Keep freed memory in the process: fresh pages from the system cost more than a sparse layer's arithmetic."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Tell the C library to reuse freed memory of up to a gigabyte; return whether it could be told.

    For the whole process, so a program may ask for it, not a library. Dense torch gains too. Only glibc can be
    told so. All threads share one heap: those of their own give large blocks back to the system.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {M_MMAP_THRESHOLD: KEPT_BYTES, M_TRIM_THRESHOLD: KEPT_BYTES, M_ARENA_MAX: 1}
    return all(mallopt(name, value) for name, value in settings.items())
