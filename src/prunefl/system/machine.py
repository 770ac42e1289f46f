"""What machine this is, in words: wall times mean nothing without it."""

import os
import platform
from pathlib import Path


def describe_machine() -> str:
    """Return processor, cores and system: 'AMD EPYC 9R14, 2 cores, Linux'."""
    return f"{describe_processor()}, {os.cpu_count() or 1} cores, {platform.system()}"


def describe_processor() -> str:
    """Return the processor's name, as exactly as the system tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
