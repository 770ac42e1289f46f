"""What a run folder tells from outside: whether it is finished, how far it is."""

import json
import os
from pathlib import Path
from typing import IO

from prunefl.runs.records import Record

TAIL_BYTES = 1 << 18
"""No record is longer: a comparison looks at its runs several times a second, and a file may hold 10,000."""


def finished(folder: Path) -> bool:
    """Return whether a folder holds a run that came to its end."""
    return last_record(folder).get("kind") == "end"


def final_density(folder: Path) -> float:
    """Return the density that a finished run ended with."""
    return float(last_record(folder)["density"])


def last_round(folder: Path) -> int:
    """Return how many rounds a run has recorded."""
    record = last_record(folder)
    return int(record["round"] if "round" in record else record.get("rounds", 0))


def last_record(folder: Path) -> Record:
    """Return the last whole record of a run, reading only the end of its file; {} if there is none."""
    path = folder / "records.jsonl"
    if not path.exists():
        return {}
    with path.open("rb") as file:
        lines = _tail(file, TAIL_BYTES).splitlines()
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            return record
    return {}


def _tail(file: IO[bytes], length: int) -> bytes:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - length))
    return file.read()


def last_line(path: Path) -> str:
    """Return the last thing that a process said in its log."""
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1].removeprefix("prunefl: ") if lines else "it left no message"
