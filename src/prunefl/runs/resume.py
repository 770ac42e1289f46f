"""Where a run begins: at its start, or at the checkpoint from which it goes on, perhaps to another number of rounds."""

import logging
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path

from prunefl import config as settings
from prunefl.config import Config
from prunefl.data.sources import AT_CLIENTS
from prunefl.methods import Memory, build_method
from prunefl.rounds.evaluation import evaluates_at_clients, is_evaluated
from prunefl.rounds.loop import Engine
from prunefl.rounds.private import is_private, refuse_broken_promise
from prunefl.rounds.server import ServerState, Setup, start
from prunefl.runs import checkpoint
from prunefl.runs.checkpoint import Loaded
from prunefl.runs.own_code import refuse_other_code
from prunefl.runs.records import read_records
from prunefl.runs.spent import read_ledger
from prunefl.system.errors import PruneFLError
from prunefl.system.files import CheckpointError, write_atomically

MODEL_FILE = "model.safetensors"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """The state to go on from, and how far time and records had come by then."""

    state: ServerState
    wall: float = 0.0
    record_bytes: int = 0
    live: dict[str, int] | None = None
    complaints: tuple[str, ...] = ()


def open_run(setup: Setup, engine: Engine, folder: Path, resume: bool) -> Opened:
    """Return where to begin: at a checkpoint if one is asked for and there, else at the start.

    What lies in the folder is changed only when all is found to be well, and so that this can be interrupted and
    done again at any point.
    """
    records, kept, rounds = folder / "records.jsonl", folder / "config.toml", setup.config.run.rounds
    if records.exists() and not resume:
        raise PruneFLError(f"{folder} holds a run already; go on with it by --resume, or give another --out")
    then = settings.load(kept) if resume and kept.exists() else setup.config
    refuse_other_config(setup.config, then, folder, _also_free(setup.config))
    if resume:
        refuse_other_code(setup.config, folder)
    found = _found(setup, then.run.rounds, folder) if resume else None
    if found is not None:
        engine.restore(found.extra["engine"])
        checkpoint.forget_after(folder / "checkpoints", found.state)
        if found.state.round < rounds != then.run.rounds and (folder / MODEL_FILE).exists():
            # of a run that had ended and goes on now: no longer its model, but somebody may want it
            (folder / MODEL_FILE).replace(folder / f"model-{then.run.rounds}.safetensors")
        # which layers compute sparsely decides bits: what was measured when the run began counts, on any machine
        setup.measured.update(found.extra["measured"])
    begun = _with_all_spent(setup, start(setup) if found is None else found.state, folder)
    refuse_broken_promise(setup, begun)
    write_atomically(kept, settings.dump(setup.config).encode())
    if found is None:
        return Opened(begun)
    extra = found.extra
    _log.info("%s: goes on after round %d of %d", folder, found.state.round, rounds)
    return Opened(begun, extra["wall"], extra["record_bytes"], extra["live"], tuple(found.complaints))


def _with_all_spent(setup: Setup, state: ServerState, folder: Path) -> ServerState:
    """Return the state with all that was ever released in this run, rounds that are gone back on included."""
    ledger = read_ledger(folder) if setup.secret and is_private(setup.config) else None
    return state if ledger is None else replace(state, spent=replace(state.spent, ledger=ledger))


def as_begun(config: Config, folder: Path) -> Config:
    """Return the config with the backend of the run in the folder, where it leaves that open: it decides bits."""
    kept, records = folder / "config.toml", folder / "records.jsonl"
    if config.run.backend != "auto" or not kept.exists():
        return config
    backend = settings.read(kept).get("run", {}).get("backend", "auto")
    if backend == "auto":
        # not begun yet; or begun before it was settled there, when the record said it, or before there was a choice
        first = next(iter(read_records(records)), None) if records.exists() else None
        backend = "auto" if first is None else first.get("backend", "torch")
    return replace(config, run=replace(config.run, backend=backend))


def _also_free(config: Config) -> set[str]:
    """Return what a run may be resumed with beside the free settings: other rounds; for real clients, other members."""
    of_members = ("clients", "min_clients", "quorum", "deadline") if config.data.name == AT_CLIENTS else ()
    return {"run.rounds", *(f"server.{key}" for key in of_members)}


def _found(setup: Setup, then: int, folder: Path) -> Loaded | None:
    """Return the checkpoint to go on from, or None to begin at the start."""
    records, checkpoints = folder / "records.jsonl", folder / "checkpoints"
    there = records.stat().st_size if records.exists() else 0
    ended = bool(there) and any(record["kind"] == "end" for record in read_records(records))
    try:
        found = checkpoint.load_latest(checkpoints, there, template=setup.network.template)
    except CheckpointError as error:
        raise (_nothing_to_do(folder, "cannot be used") if ended else error) from None
    if found is None and ended:
        raise _nothing_to_do(folder, "are gone")
    if found is None:
        return None
    if then == setup.config.run.rounds:
        return found
    _refuse_other_rounds(setup, then, found.state.round, folder)
    same = same_rounds(setup, then, found.state.round, found.state.memory)
    if same == found.state.round:
        return found
    _log.info(
        "%s: going back to round %d, the last that %d rounds share with %d",
        folder,
        same,
        then,
        setup.config.run.rounds,
    )
    earlier = checkpoint.load_latest(checkpoints, there, same, setup.network.template)
    if earlier is None:
        raise PruneFLError(
            f"run.rounds={setup.config.run.rounds}, but after round {same} the run in {folder} did what only a run of "
            f"{then} rounds does, and has no checkpoint from before; give another --out"
        )
    return earlier


def _nothing_to_do(folder: Path, checkpoints: str) -> PruneFLError:
    return PruneFLError(
        f"{folder}: the run is finished, and its checkpoints {checkpoints}; there is nothing to resume"
    )


def _refuse_other_rounds(setup: Setup, then: int, done: int, folder: Path) -> None:
    """Refuse another number of rounds where what has been done already depends on it."""
    config, given = setup.config, f"run.rounds={setup.config.run.rounds}, but the run in {folder}"
    if config.run.rounds < done:
        raise PruneFLError(f"{given} has done {done} rounds, must be >= {done}")
    reason = setup.method.tied_to_rounds and f"run.method={config.run.method!r} {setup.method.tied_to_rounds}"
    if config.pruning.density_target:
        reason = f"pruning.density_target={config.pruning.density_target} is the limit of the last round"
    if config.training.schedule == "cosine":
        reason = "training.schedule='cosine' ends with the last round"
    if reason:
        raise PruneFLError(
            f"{given} has {then}, and {reason}; resume without changing it, or give another --out"
        )


def same_rounds(setup: Setup, then: int, done: int, memory: Memory) -> int:
    """Return how many of the rounds done for a run of `then` are just as in a run of the rounds wanted now.

    A run does not collect what no later round of it will use, and evaluates after its last round.
    """
    now = setup.config
    before = replace(now, run=replace(now.run, rounds=then))
    method, time_model = build_method(before), setup.time_model
    for round in range(1, done + 1):
        same = method.work(round, memory, time_model) == setup.method.work(round, memory, time_model)
        if not same or is_evaluated(round, before) != is_evaluated(round, now):
            return round - 1
        # after the last round all clients evaluate, after others the cohort
        if round == min(then, now.run.rounds) != max(then, now.run.rounds) and evaluates_at_clients(
            round, now
        ):
            return round - 1
    return done


def refuse_other_config(now: Config, then: Config, folder: Path, also_free: Collection[str] = ()) -> None:
    """Refuse to go on with a run under settings that would change its numbers."""
    now, then = as_begun(now, folder), as_begun(then, folder)
    if then.run.backend == "auto":
        # nothing has begun yet
        then = replace(then, run=replace(then.run, backend=now.run.backend))
    free = {*settings.free_settings("to resume"), *also_free}
    for section in fields(now):
        one, other = getattr(now, section.name), getattr(then, section.name)
        if one == other:
            continue
        if isinstance(one, tuple):
            raise PruneFLError(f"{section.name} differs from the run in {folder}; give another --out")
        for key in (field.name for field in fields(one)):
            path = f"{section.name}.{key}"
            if getattr(one, key) != getattr(other, key) and path not in free:
                raise PruneFLError(
                    f"{path}={getattr(one, key)!r}, but the run in {folder} has {getattr(other, key)!r}; "
                    "resume without changing it, or give another --out"
                )
