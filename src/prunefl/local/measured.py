"""What was measured on a machine and decides bits: kept with a run, so that to repeat it takes nobody's cache."""

import json
from collections.abc import Mapping
from pathlib import Path

from prunefl.system.files import write_atomically

FILE = "break-even.json"


def read_measured(folder: Path, run: str = "") -> dict[str, float]:
    """Return the break-even densities of a run's folder; none where there is no file, or one of another run."""
    try:
        kept = json.loads((folder / FILE).read_text())
        return {str(k): float(v) for k, v in kept["densities"].items()} if kept["run"] == run else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_measured(folder: Path, densities: Mapping[str, float], run: str = "") -> None:
    """Keep the densities that a run goes by."""
    if densities != read_measured(folder, run):
        text = json.dumps({"run": run, "densities": dict(densities)}, indent=1)
        write_atomically(folder / FILE, text.encode())
