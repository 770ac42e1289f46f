"""A run from its first round to its last: evaluation, records, checkpoints, stop and resume. Any engine."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prunefl.core import schedule
from prunefl.core.network import Network
from prunefl.core.objectives import loss_of
from prunefl.core.state import SparseState
from prunefl.data import Samples
from prunefl.local.measured import write_measured
from prunefl.rounds.evaluation import is_evaluated
from prunefl.rounds.loop import Engine, run_rounds
from prunefl.rounds.private import can_go_on, is_private
from prunefl.rounds.server import Outcome, ServerState, Setup
from prunefl.rounds.server_start import run_first_stage, starts_at_server
from prunefl.runs import checkpoint
from prunefl.runs.best import keep_best
from prunefl.runs.callbacks import OnRecord
from prunefl.runs.evaluate import Evaluator
from prunefl.runs.records import (
    Record,
    RecordFile,
    Records,
    final_accuracy,
    final_score,
    mean_accuracy,
    metric_of,
    read_records,
)
from prunefl.runs.resume import MODEL_FILE, open_run
from prunefl.runs.round_record import end_record, first_record, outcome_record, without_repeats
from prunefl.runs.soundness import UnsoundError, check_sound, find_advice
from prunefl.runs.spent import write_spent
from prunefl.system.errors import PruneFLError
from prunefl.system.version import VERSION
from prunefl.wire.model_file import About, save_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn


@dataclass(frozen=True, repr=False)
class Run:
    """What a run came to.

    Attributes:
        state: the trained weights and their masks, as arrays.
        finished: False if it was stopped; it can be resumed.
        complaints: what was found wrong on the way, such as an unreadable checkpoint that was skipped.
        best: weights and masks of the best evaluation, with run.keep_best.
        again: goes on with the run in its folder to so many rounds in all; None where no folder was kept.
    """

    network: Network
    state: SparseState
    records: Records
    folder: Path
    finished: bool
    complaints: tuple[str, ...] = ()
    again: "Callable[[int], Run] | None" = None
    best: SparseState | None = None

    def __repr__(self) -> str:
        """Return the run in a line."""
        metric, score = metric_of(self.records), self.score
        judged = "not evaluated" if score is None else f"{metric.words} {metric.spoken(score)}"
        size = f"{self.state.masks.density:.1%} of the weights"
        return f"Run({judged}, {size}, {self._done} rounds{'' if self.finished else ', stopped'})"

    @property
    def _done(self) -> int:
        return max((record["round"] for record in self.records if record["kind"] == "round"), default=0)

    def extend(self, rounds: int) -> "Run":
        """Return the run after so many more rounds, as if it had had them from the start; needs its folder, `out`."""
        if self.again is None:
            raise PruneFLError("extend needs the folder of the run: train with out=FOLDER")
        return self.again(self._done + rounds)

    def plot(self, *others: "Run") -> "Figure":
        """Return a figure of what this run came to, and others beside it; a notebook shows it."""
        # the drawing is a room above this one: asked for by its public name
        import prunefl

        return prunefl.plot(self, *others)

    @cached_property
    def model(self) -> "nn.Module":
        """The trained network as a plain torch module, zero where pruned."""
        from prunefl.local.torch_backend.backend import module_with

        return module_with(self.network.module, self.state)

    @cached_property
    def best_model(self) -> "nn.Module":
        """The network of the best evaluation, as `model` is that of the last round."""
        from prunefl.local.torch_backend.backend import module_with

        if self.best is None:
            raise PruneFLError("best_model needs run.keep_best=true, and a round that was evaluated")
        return module_with(self.network.module, self.best)

    @cached_property
    def masks(self) -> "dict[str, Tensor]":
        """Which weights live, as `prunefl.sparsify` takes them."""
        from prunefl.local.torch_backend.backend import as_tensors

        return as_tensors(self.state.masks)

    @property
    def accuracy(self) -> float | None:
        """Accuracy of this model: that of the last evaluation."""
        return final_accuracy(self.records)

    @property
    def score(self) -> float | None:
        """The task's own metric of this model, at the last evaluation: accuracy, or what the loss is judged by."""
        return final_score(self.records)

    @property
    def mean_accuracy(self) -> float | None:
        """Mean over the last tenth of the evaluations: steadier than one of them, and of no one model."""
        return mean_accuracy(self.records)


def execute(
    setup: Setup,
    engine: Engine,
    test: Samples | None,
    data: str,
    folder: Path,
    resume: bool,
    on_record: OnRecord,
    on_begin: Callable[[int], None] | None = None,
    public: Samples | None = None,
) -> Run:
    """Run all rounds that are left, leaving in `folder` what the README says a run leaves.

    Args:
        test: what the server evaluates on; None where it has no samples.
        public: what it prunes first on, with privacy.initial=server.
        on_begin: told when all is checked, before anything is trained, how many rounds are done already.
    """
    opened = open_run(setup, engine, folder, resume)
    if on_begin is not None:
        on_begin(opened.state.round)
    state, wall = opened.state, opened.wall
    rounds = _all_rounds(setup, opened.state, engine, public)
    evaluator = None if test is None else Evaluator(setup, test)
    stop = False
    with RecordFile(folder / "records.jsonl", opened.record_bytes) as file:
        if not opened.record_bytes:
            file.write(first_record(setup, opened.state, data, VERSION))
        live = opened.live
        best = keep_best(folder, _about(setup), setup.config.run.keep_best, read_records(file.path))
        clock = time.perf_counter()
        for state, outcome in rounds:
            if setup.secret and is_private(setup.config):
                write_spent(folder, state.spent)
            check_sound(setup, state, outcome)
            tested = _tested(setup, state, outcome, evaluator)
            now = time.perf_counter()
            wall, spent, clock = wall + now - clock, now - clock, now
            full = {**outcome_record(setup, state, outcome, spent, wall), **tested}
            record, live = without_repeats(full, live), full["live"]
            file.write(record)
            if best is not None:
                best.show(full, state.sparse)
            stop = bool(on_record(full))
            if stop or state.round % setup.config.run.checkpoint_every == 0 or _finished(setup, state):
                file.sync()
                extra = {
                    "wall": wall,
                    "record_bytes": file.num_bytes,
                    "live": live,
                    "engine": engine.snapshot(),
                    "measured": dict(setup.measured),
                }
                write_measured(folder, setup.measured)
                # simulated clients could not go back so far
                evaluated = (bool(tested) or outcome.evaluation is not None) and not extra["engine"]
                checkpoint.save(folder / "checkpoints", state, extra, evaluated)
            if stop:
                break
        records = read_records(file.path)
        if _finished(setup, state) and records[-1]["kind"] != "end":
            # first the model: who reads "end" may rely on it
            save_model(folder / MODEL_FILE, state.sparse, _about(setup))
            file.write(end_record(records, state, best is not None))
    records = read_records(folder / "records.jsonl")
    kept = None if best is None else best.state
    finished = _finished(setup, state)
    return Run(setup.network, state.sparse, records, folder, finished, opened.complaints, best=kept)


def _all_rounds(
    setup: Setup, state: ServerState, engine: Engine, public: Samples | None
) -> Iterator[tuple[ServerState, Outcome]]:
    """Yield what `run_rounds` does, after a first stage at the server itself, if there is one."""
    if starts_at_server(setup, state):
        state, outcome = run_first_stage(setup, state, public)
        yield state, outcome
    yield from run_rounds(setup, state, engine)


def _tested(setup: Setup, state: ServerState, outcome: Outcome, evaluator: Evaluator | None) -> Record:
    """Return accuracy, or the task's own metric, and test loss where this round is one to evaluate."""
    if evaluator is None or outcome.round == 0 or not is_evaluated(state.round, setup.config):
        return {}
    score, loss = evaluator.evaluate(state)
    if not math.isfinite(loss):
        rate = schedule.learning_rate(state.round, setup.config, state.sparse.masks.density)
        raise UnsoundError(
            f"training diverged in round {state.round}, rate {rate:g}: the test loss turned {loss}; "
            f"{find_advice(setup)}",
            outcome.bounded,
        )
    named = "accuracy" if loss_of(setup.config).metric == "accuracy" else "score"
    return {named: score, "test_loss": loss}


def _finished(setup: Setup, state: ServerState) -> bool:
    return state.round >= setup.config.run.rounds or not can_go_on(setup, state)


def _about(setup: Setup) -> About:
    network = setup.network
    return About(setup.config.model.name, network.classes, network.input_shape, network.template.layers)
