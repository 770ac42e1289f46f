"""What a client lets any server ask of it. The limits are its own; a server can neither see nor change them."""

import os
import signal
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from prunefl.config import Config
from prunefl.config.settings import Rule, at_least, changed, setting, share
from prunefl.local.batches import count_steps
from prunefl.local.native import Plan
from prunefl.rounds.messages import EvaluationWork, Order, SecureWork
from prunefl.system.errors import PruneFLError

REQUESTS = ("train", "prune first", "evaluate", "report")
"""Kinds of work: a round's training, the stage before round 1, evaluation, and importance beside the weights."""


def requests() -> Rule:
    """Return the rule of `allow`."""
    return Rule(lambda values: set(values) <= set(REQUESTS), f"must be some of {', '.join(REQUESTS)}")


@dataclass(frozen=True)
class Limits:
    """What this client answers; a file given by --limits may change it."""

    threads: int = setting(0, "most threads to compute with; 0: as many as there are cores", at_least(0))
    memory_mb: int = setting(0, "most memory of the worker, in MB; 0: any", at_least(0))
    disk_mb: int = setting(4096, "most that is kept on disk for a run, in MB", at_least(1))
    steps: int = setting(10_000, "most steps of one order", at_least(1))
    initial_steps: int = setting(1_000_000, "most steps of initial pruning", at_least(1))
    batch: int = setting(4096, "largest mini-batch", at_least(1))
    seconds: int = setting(86_400, "most seconds for one order", at_least(1))
    smallest_batch: int = setting(
        1, "smallest mini-batch that is answered: one of 1 tells of a single sample", at_least(1)
    )
    smallest_steps: int = setting(1, "fewest steps that are answered", at_least(1))
    secure: bool = setting(False, "whether updates leave this client under masks only (privacy.secure)")
    threshold: float = setting(0.0, "least privacy.threshold that is answered", share())
    noise: float = setting(0.0, "least privacy.noise that is answered", at_least(0))
    allow: tuple[str, ...] = setting(REQUESTS, "work that is done at all", requests())

    def describe(self) -> str:
        """Return the limits in one line, as they are printed when a client joins."""
        values = [(field.name, getattr(self, field.name)) for field in fields(self)]
        words = [
            f"{name} {', '.join(value) if isinstance(value, tuple) else value}" for name, value in values
        ]
        return f"limits of this client: {'; '.join(words)}"


def read_limits(path: Path | None) -> Limits:
    """Return the limits in a TOML file; the default ones without."""
    if path is None:
        return Limits()
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise PruneFLError(f"--limits {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PruneFLError(f"--limits {path}: not valid TOML: {error}") from None
    limits: Limits = changed("limits", Limits(), table)
    return limits


def check_config(config: Config, samples: int, limits: Limits) -> None:
    """Refuse a run that would ask for more than this client gives."""
    training, initial, privacy = config.training, config.initial, config.privacy
    if limits.secure and not privacy.secure:
        raise PruneFLError("privacy.secure=false, but this client's limit secure is true")
    cores = os.cpu_count() or 1
    threads = limits.threads or cores
    batches = -(-min(initial.samples, samples) // training.batch_size)
    most = {
        "run.threads": (config.run.threads, threads, "threads"),
        "initial.threads": (initial.threads, threads, "threads"),
        "training.local_steps": (count_steps(samples, config), limits.steps, "steps"),
        "training.batch_size": (training.batch_size, limits.batch, "batch"),
        "run.eval_batch": (config.run.eval_batch, limits.batch, "batch"),
        "evaluation.personal_steps": (config.evaluation.personal_steps, limits.steps, "steps"),
        "initial.max_passes (steps)": (initial.max_passes * batches, limits.initial_steps, "initial_steps"),
    }
    for name, (value, bound, limit) in most.items():
        if value > bound:
            raise PruneFLError(f"{name}={value}, but this client's limit {limit} is {bound}")
    least: dict[str, tuple[float, float, str]] = {
        "training.batch_size": (training.batch_size, limits.smallest_batch, "smallest_batch"),
        "training.local_steps": (count_steps(samples, config), limits.smallest_steps, "smallest_steps"),
        "privacy.noise": (privacy.noise, limits.noise, "noise"),
        "privacy.threshold": (privacy.threshold, limits.threshold if privacy.secure else 0.0, "threshold"),
    }
    for name, (given, wanted, limit) in least.items():
        if given < wanted:
            raise PruneFLError(f"{name}={given}, but this client's limit {limit} is {wanted}")


def check_plan(plan: Plan, config: Config, limits: Limits) -> None:
    """Refuse a network that cannot fit, before any of it is made."""
    needed = plan.least_bytes(config.training.batch_size) >> 20
    if limits.memory_mb and needed > limits.memory_mb:
        raise PruneFLError(
            f"plan: training takes {needed:,} MB at least, but this client's limit memory_mb is {limits.memory_mb}"
        )


def check_order(order: Order, limits: Limits) -> None:
    """Refuse work that this client does not do."""
    work = order.work
    if isinstance(work, SecureWork):
        return
    kind = "evaluate" if isinstance(work, EvaluationWork) else "train" if order.round else "prune first"
    for wanted in (kind, "report" if work.report else kind):
        if wanted not in limits.allow:
            raise PruneFLError(
                f"this client does not {wanted} (its limit allow has {', '.join(limits.allow)})"
            )
    if isinstance(work, EvaluationWork) and not 0 <= work.personal_steps <= limits.steps:
        raise PruneFLError(
            f"personal_steps={work.personal_steps}, but this client's limit steps is {limits.steps}"
        )


def limit_memory(limits: Limits) -> None:
    """Keep this process from taking more memory than the limit; what does not fit ends in a MemoryError."""
    if limits.memory_mb:
        import resource

        num_bytes = limits.memory_mb << 20
        resource.setrlimit(resource.RLIMIT_DATA, (num_bytes, num_bytes))


@contextmanager
def limit_seconds(limits: Limits) -> Iterator[None]:
    """End what takes longer than the limit with a PruneFLError, between two steps."""

    def stop(number: int, frame: object) -> None:
        raise PruneFLError(f"it took longer than this client's limit of {limits.seconds} seconds")

    if threading.current_thread() is not threading.main_thread():
        # signals come to the main thread alone; a worker is one
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
