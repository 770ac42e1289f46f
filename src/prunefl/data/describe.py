"""From one client's data to the section of a config by which a server knows the task without a sample."""

import json
from pathlib import Path

from prunefl.data.listed import ImageOptions
from prunefl.data.mine import bring, count_classes
from prunefl.data.scaling import WORDS
from prunefl.data.sources import AT_CLIENTS
from prunefl.data.task import Task


def describe_task(path: Path, clients: int = 0, size: int = 0) -> str:
    """Return the section as TOML, with what was found as comments."""
    brought = bring(path, Task(), ImageOptions(size))
    counts = ", ".join(f"{name} {count}" for name, count in count_classes(brought).items())
    many = f"clients = {clients}" if clients else "clients = 0  # how many take part: to be set"
    lines = [
        f"# {path}: {len(brought.samples)} samples",
        f"# samples by class: {counts}",
        "[data]",
        f'name = "{AT_CLIENTS}"',
        many,
        f"classes = {json.dumps(brought.names, ensure_ascii=False)}",
        f"shape = {list(brought.shape)}",
        f'scaling = "{brought.scaling}"  # {WORDS.get(brought.scaling, "as that data set has it")}',
        *([f"size = {size}"] if size else []),
    ]
    return "\n".join(lines) + "\n"
