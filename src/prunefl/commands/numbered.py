"""Where runs go when nobody says: into the usual folder, or the next number of it where that one is taken."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.experiments import Job


def free_folder(usual: Path) -> Path:
    """Return the first of NAME, NAME-2, NAME-3, ... that holds no run."""
    return next(folder for folder in _numbers(usual) if not (folder / "records.jsonl").exists())


def last_folder(usual: Path) -> Path:
    """Return the last of NAME, NAME-2, NAME-3, ... that holds a run, the first where none does."""
    before = list(takewhile(lambda folder: (folder / "records.jsonl").exists(), _numbers(usual)))
    return before[-1] if before else usual


def fitting_folder(usual: Path, plan: Callable[[Path], "Sequence[Job]"]) -> "tuple[Path, Sequence[Job]]":
    """Return the first of NAME, NAME-2, ... that is new or holds a part of these runs, and the runs there.

    The same command goes on with what it began, another one begins anew.
    """
    for folder in _numbers(usual):
        jobs = plan(folder)
        if not folder.exists() or _fits(folder, jobs):
            return folder, jobs
    raise AssertionError("unreachable")


def _fits(folder: Path, jobs: "Sequence[Job]") -> bool:
    from prunefl.experiments.job import refuse_changed
    from prunefl.experiments.plan import refuse_other_runs
    from prunefl.report import refuse_foreign_page

    try:
        refuse_other_runs(jobs, folder)
        refuse_foreign_page(folder / "report")
        for job in jobs:
            refuse_changed(job)
    except PruneFLError:
        return False
    return True


def _numbers(usual: Path) -> Iterator[Path]:
    return (usual if number == 1 else usual.with_name(f"{usual.name}-{number}") for number in count(1))
