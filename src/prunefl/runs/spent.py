"""What a run has spent of its privacy budget, as JSON: in every checkpoint, and at real servers in a file beside them.

A real server's noise is drawn but once: rounds that are done again, from an earlier checkpoint, are spent again. So the
file knows of every release, also of those whose checkpoints are gone; it is written before anybody is sent the model.
"""

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

from prunefl.core.ledger import Ledger, Release
from prunefl.rounds.private import Spent
from prunefl.system.files import CheckpointError, write_atomically

FILE = "privacy.json"


def as_json(spent: Spent) -> dict[str, Any]:
    """Return it as JSON: clients, cohort, multiplier and rounds of each kind of release, and the clip."""
    return {"releases": [list(astuple(release)) for release in spent.ledger.releases], "clip": spent.clip}


def from_json(entry: Any) -> Spent:
    """Return what was written; ValueError or TypeError for what cannot have been."""
    releases = [Release(*numbers) for numbers in entry["releases"]]
    for one in releases:
        whole = all(type(number) is int for number in (one.clients, one.cohort, one.rounds))
        if not whole or not (1 <= one.cohort <= one.clients and one.rounds >= 1 and one.multiplier > 0):
            raise ValueError(f"a release of {astuple(one)}")
    return Spent(Ledger().plus(releases), float(entry["clip"]))


def write_spent(folder: Path, spent: Spent) -> None:
    """Write the file of a real server."""
    write_atomically(folder / FILE, json.dumps(as_json(spent)).encode())


def read_ledger(folder: Path) -> Ledger | None:
    """Return all that a real server has ever released in this run; None if there is no file."""
    path = folder / FILE
    try:
        return from_json(json.loads(path.read_text())).ledger
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: not a privacy ledger ({error})") from None
