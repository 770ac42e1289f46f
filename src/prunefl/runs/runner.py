"""A run from its first round to its last: evaluation, records, checkpoints, stop and resume. Any engine."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from prunefl.core.masks import Masks
from prunefl.data import Samples
from prunefl.local import torch_backend as sparse
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.loop import Engine, run_rounds
from prunefl.rounds.server import Outcome, ServerState, Setup
from prunefl.runs import checkpoint
from prunefl.runs.artifact import About, save_model
from prunefl.runs.evaluate import Evaluator, is_evaluated
from prunefl.runs.records import Record, RecordFile, final_accuracy, read_records
from prunefl.runs.resume import MODEL_FILE, open_run
from prunefl.runs.round_record import end_record, first_record, outcome_record, without_repeats
from prunefl.system.errors import PruneFLError
from prunefl.system.version import VERSION

OnRecord = Callable[[Record], bool | None]
"""Told of every record as soon as it is written; answers True to stop after this round."""


@dataclass(frozen=True)
class Run:
    """What a run came to.

    Attributes:
        model: the trained network as a plain torch module, zero where pruned.
        finished: False if it was stopped; it can be resumed.
        complaints: what was found wrong on the way, such as an unreadable checkpoint that was skipped.
    """

    model: nn.Module
    masks: Masks
    records: list[Record]
    folder: Path
    finished: bool
    complaints: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """The mean of the last five evaluations."""
        return final_accuracy(self.records)


def execute(
    setup: Setup, engine: Engine, test: Samples, data: str, folder: Path, resume: bool, on_record: OnRecord
) -> Run:
    """Run all rounds that are left, leaving in `folder` what the README says a run leaves."""
    opened = open_run(setup, engine, folder, resume)
    state, wall = opened.state, opened.wall
    rounds = run_rounds(setup, opened.state, engine)
    evaluator = Evaluator(setup, test)
    stop = False
    with RecordFile(folder / "records.jsonl", opened.record_bytes) as file:
        if not opened.record_bytes:
            file.write(first_record(setup, opened.state, data, VERSION))
        live = opened.live
        clock = time.perf_counter()
        for state, outcome in rounds:
            tested = _tested(setup, state, outcome, evaluator)
            now = time.perf_counter()
            wall, spent, clock = wall + now - clock, now - clock, now
            full = {**outcome_record(setup, state, outcome, spent, wall), **tested}
            record, live = without_repeats(full, live), full["live"]
            file.write(record)
            stop = bool(on_record(full))
            if stop or state.round % setup.config.run.checkpoint_every == 0 or _finished(setup, state):
                file.sync()
                extra = {
                    "wall": wall,
                    "record_bytes": file.num_bytes,
                    "live": live,
                    "engine": engine.snapshot(),
                }
                checkpoint.save(folder / "checkpoints", state, extra)
            if stop:
                break
        records = read_records(file.path)
        if _finished(setup, state) and records[-1]["kind"] != "end":
            # first the model: who reads "end" may rely on it
            _save_model(setup, state, folder)
            file.write(end_record(records, state))
    trainer = Trainer(setup.model, setup.template, setup.classes, setup.batch_shape)
    model = sparse.densify(trainer.load(state.values, state.masks))
    records = read_records(folder / "records.jsonl")
    return Run(model, state.masks, records, folder, _finished(setup, state), opened.complaints)


def _tested(setup: Setup, state: ServerState, outcome: Outcome, evaluator: Evaluator) -> Record:
    """Return accuracy and test loss where this round is one to evaluate."""
    if outcome.segments or not is_evaluated(state.round, setup.config):
        return {}
    accuracy, loss = evaluator.evaluate(state)
    if not math.isfinite(loss):
        raise PruneFLError(
            f"round {state.round}: the test loss turned {loss}; lower training.learning_rate, or limit what one client "
            "can do by server.clip_norm or server.aggregate"
        )
    return {"accuracy": accuracy, "test_loss": loss}


def _finished(setup: Setup, state: ServerState) -> bool:
    return state.round >= setup.config.run.rounds


def _save_model(setup: Setup, state: ServerState, folder: Path) -> None:
    shapes = {name: tuple(mask.shape) for name, mask in state.masks.items()}
    about = About(setup.config.model.name, setup.classes, setup.input_shape, shapes)
    save_model(folder / MODEL_FILE, state.values, state.masks, about)
