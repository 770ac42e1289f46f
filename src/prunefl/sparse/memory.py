"""Keep freed memory in the process: fresh pages from the system cost more than a sparse layer's arithmetic."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Tell the C library to reuse freed memory of up to a gigabyte; return whether it could be told.

    For the whole process, and dense torch gains from it too. Only glibc can be told so.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES))
