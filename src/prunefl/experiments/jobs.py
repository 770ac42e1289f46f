"""Do what is missing of a list of runs: here, or side by side in processes of their own."""

import ctypes
import json
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prunefl import config as settings
from prunefl.config import Config
from prunefl.experiments.folders import finished, last_line, last_round
from prunefl.experiments.job import Job, completed, refuse_changed
from prunefl.report.runs import VARIANT_FILE
from prunefl.runs.records import Record
from prunefl.system.cores import cores
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically
from prunefl.system.locks import for_child, hold
from prunefl.system.plugins import program

LOG_FILE = "output.txt"
"""What a run that has a process of its own printed, or the traceback of one that failed."""

LOCK_SECONDS = 60.0
"""How long to wait for a run that another process is still ending."""

_PROGRAM = program("prunefl")
_POLL_SECONDS = 0.2

PASSES_TOLD = 25
"""Passes of initial pruning from one message to the next."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Progress:
    """How far one run is."""

    job: Job
    round: int
    state: str
    """"running", "done" (now), "reused" (before), "stopped" or "failed"."""
    detail: str = ""


OnProgress = Callable[[Progress], None]
Running = dict[Path, tuple[Job, "subprocess.Popen[bytes]"]]


@dataclass(frozen=True)
class Results:
    """What became of the jobs, by folder."""

    states: Mapping[Path, Progress]

    def failures(self) -> list[Progress]:
        """Return the runs that failed."""
        return [progress for progress in self.states.values() if progress.state == "failed"]


def run_jobs(jobs: Sequence[Job], at_once: int, on_progress: OnProgress, stop: Callable[[], bool]) -> Results:
    """Run what is missing and return what became of each; a job whose density is not there yet waits.

    Args:
        at_once: how many runs share the machine; 1 runs them here.
        stop: asked often; True ends every run after its round.
    """
    states: dict[Path, Progress] = {}

    def tell(progress: Progress) -> None:
        states[progress.job.folder] = progress
        on_progress(progress)

    for job in jobs:
        refuse_changed(job)
    distinct = _by_folder(jobs)
    if at_once == 1:
        _run_here(distinct, tell, stop)
    else:
        _run_apart(distinct, at_once, tell, stop)
    return Results(states)


def _by_folder(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs without those that stand twice; refuses two that would write into one folder."""
    distinct: dict[Path, Job] = {}
    for job in jobs:
        other = distinct.setdefault(job.folder, job)
        if other.config != job.config:
            raise PruneFLError(
                f"{other.name} and {job.name} differ and share {job.folder}: run them one by one, with --out"
            )
    return list(distinct.values())


def _blocked(job: Job) -> bool:
    """Return whether the run that a job's density comes from has not ended."""
    return job.density_from is not None and not finished(job.density_from)


def prepare(job: Job, workers: int) -> Config:
    """Write down what the run is for, and return the config it shall run."""
    config = completed(job)
    config = replace(config, run=replace(config.run, workers=workers)) if workers else config
    with hold(job.folder, LOCK_SECONDS):
        write_atomically(job.folder / VARIANT_FILE, json.dumps(dict(job.variant)).encode())
    return config


def _run_here(jobs: Sequence[Job], tell: OnProgress, stop: Callable[[], bool]) -> None:
    from prunefl.runs.api import run_config

    for job in jobs:
        if stop():
            return
        if finished(job.folder):
            tell(Progress(job, job.config.run.rounds, "reused"))
        elif _blocked(job):
            tell(_without_density(job))
        else:
            tell(Progress(job, last_round(job.folder), "running"))
            try:
                config = prepare(job, 0)
                on_record, on_pass = _teller(job, tell, stop), _pass_teller(job, tell)
                run = run_config(config, job.folder, True, on_record, on_pass)
            except PruneFLError as error:
                tell(Progress(job, last_round(job.folder), "failed", str(error)))
            # code of the user's own may raise anything: it fails its own run, not the others
            except Exception as error:
                tell(Progress(job, last_round(job.folder), "failed", _keep_traceback(job, error)))
            else:
                done = last_round(job.folder)
                tell(Progress(job, done, "done" if run.finished else "stopped"))


def _keep_traceback(job: Job, error: Exception) -> str:
    """Return an error in a line; how it came about is kept in the run's folder."""
    write_atomically(job.folder / LOG_FILE, "".join(traceback.format_exception(error)).encode())
    return f"{type(error).__name__}: {error}, see {LOG_FILE}"


def _without_density(job: Job) -> Progress:
    return Progress(job, 0, "failed", f"its density comes from {job.density_from}, which did not end")


def _teller(job: Job, tell: OnProgress, stop: Callable[[], bool]) -> Callable[[Record], bool]:
    def on_record(record: Record) -> bool:
        tell(Progress(job, record.get("round", 0), "running"))
        return stop()

    return on_record


def _pass_teller(job: Job, tell: OnProgress) -> Callable[[int, int, float], None]:
    """Return what tells of initial pruning now and then; it can take longer than a hundred rounds."""

    def on_pass(done: int, most: int, density: float) -> None:
        if done % PASSES_TOLD == 0:
            tell(Progress(job, 0, "running", f"initial pruning, pass {done}, density {density:.0%}"))

    return on_pass


def _run_apart(waiting: list[Job], at_once: int, tell: OnProgress, stop: Callable[[], bool]) -> None:
    running: Running = {}
    workers = max(1, cores() // at_once)
    told_to_stop = False
    try:
        while running or (waiting and not stop()):
            if stop() and not told_to_stop:
                told_to_stop = True
                _interrupt(running)
            while len(running) < at_once and not stop() and (job := _next(waiting, running, tell)):
                try:
                    running[job.folder] = (job, _started(job, workers))
                except PruneFLError as error:
                    tell(Progress(job, last_round(job.folder), "failed", str(error)))
            time.sleep(_POLL_SECONDS if running else 0)
            _collect(running, tell)
    finally:
        _interrupt(running)
        for _, process in running.values():
            process.wait()


def _interrupt(running: Running) -> None:
    """Ask every run to end after its round, as Ctrl-C does; it can be resumed."""
    for _, process in running.values():
        process.send_signal(signal.SIGINT)


def _next(waiting: list[Job], running: Running, tell: OnProgress) -> Job | None:
    """Take the first job that can start out of the list, telling of those that need not or cannot."""
    for job in list(waiting):
        if finished(job.folder):
            waiting.remove(job)
            tell(Progress(job, job.config.run.rounds, "reused"))
        elif not _blocked(job):
            waiting.remove(job)
            return job
        elif job.density_from not in running and not any(j.folder == job.density_from for j in waiting):
            waiting.remove(job)
            tell(_without_density(job))
    return None


def _started(job: Job, workers: int) -> "subprocess.Popen[bytes]":
    """Start `prunefl run --resume` on the job's folder, which holds its config."""
    config = prepare(job, workers)
    with hold(job.folder, LOCK_SECONDS) as lock, (job.folder / LOG_FILE).open("wb") as log:
        write_atomically(job.folder / "config.toml", settings.dump(config).encode())
        return subprocess.Popen(
            [*_PROGRAM, "run", "--out", str(job.folder), "--resume"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=for_child(lock),
            pass_fds=[lock],
            preexec_fn=_end_with_parent(),
            # Ctrl-C in the terminal reaches only us; we pass it on once
            start_new_session=True,
        )


def _end_with_parent() -> Callable[[], None] | None:
    """Return what makes a new process end after its round if we are killed; only Linux knows how."""
    if not sys.platform.startswith("linux"):
        return None
    # loaded before the fork: afterwards nothing but the one call is safe
    set_option = ctypes.CDLL(None).prctl
    return lambda: set_option(_PR_SET_PDEATHSIG, signal.SIGINT)


def _collect(running: Running, tell: OnProgress) -> None:
    """Tell how far each run is, and take out those that have ended."""
    for folder, (job, process) in list(running.items()):
        code = process.poll()
        if code is None:
            tell(Progress(job, last_round(folder), "running"))
            continue
        del running[folder]
        if finished(folder):
            tell(Progress(job, job.config.run.rounds, "done"))
        elif code == 130:
            tell(Progress(job, last_round(folder), "stopped"))
        else:
            said = (
                last_line(folder / LOG_FILE)
                if code > 0
                else f"killed by {_signal(-code)}; the same command goes on"
            )
            tell(Progress(job, last_round(folder), "failed", said))


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
