"""A model that is lost is never kept; a real run goes back, and leaves out who broke it, or says that nobody did."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prunefl.core.state import SparseState
from prunefl.rounds.server import Outcome, ServerState, begin_round, start
from prunefl.rounds.updates import RoundFailed
from prunefl.runs import checkpoint
from prunefl.runs.api import train
from prunefl.runs.recovery import Recovery
from prunefl.runs.soundness import UnsoundError, check_sound
from tasks import small_clients, small_config, small_data, small_federation, small_model, small_setup

SETUP = small_setup(small_federation(), small_config())
STATE = start(SETUP)
EXTRA = {"record_bytes": 0, "engine": {}}


def with_values(value: float) -> ServerState:
    values = {name: np.full_like(old, value) for name, old in STATE.sparse.values.items()}
    return replace(STATE, sparse=SparseState(values, STATE.sparse.masks), round=7)


def outcome(bounded: dict[int, str]) -> Outcome:
    return Outcome(7, [0, 1], 0.5, None, False, {}, {}, bounded)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [3e38, float("nan"), float("inf"), 1e30])
def test_a_model_that_nobody_could_train_on_from_is_not_sound(value: float):
    check_sound(SETUP, STATE, outcome({}))
    with pytest.raises(UnsoundError, match=r"diverged in round 7: the model's norm") as lost:
        check_sound(SETUP, with_values(value), outcome({3: "change 1e+30 times the usual norm"}))
    assert lost.value.suspects == {3}


def test_a_run_that_diverges_ends_in_one_line_and_keeps_no_checkpoint_of_it(tmp_path: Path):
    config = small_config(training={"learning_rate": 1e12}, run={"method": "conventional"})
    with pytest.raises(ValueError, match=r"round \d+: .*learning_rate|updates were good"):
        train(small_model(), small_clients(), test=small_data(40, seed=9), config=config, out=tmp_path)
    found = checkpoint.load_latest(tmp_path / "checkpoints", 10**9)
    assert found is None or all(np.isfinite(v).all() for v in found.state.sparse.values.values())


def save(folder: Path, round: int, evaluated: bool) -> None:
    checkpoint.save(folder / "checkpoints", replace(STATE, round=round), EXTRA, evaluated)


def rounds_kept(folder: Path) -> list[int]:
    return sorted(int(path.name[:7]) - 1 for path in (folder / "checkpoints").glob("*.safetensors"))


def test_the_last_evaluated_checkpoint_is_kept_beside_the_last_two(tmp_path: Path):
    for round in range(1, 8):
        save(tmp_path, round, evaluated=round in (2, 4))
    assert rounds_kept(tmp_path) == [4, 6, 7]
    assert checkpoint.go_back(tmp_path / "checkpoints") == 4
    assert rounds_kept(tmp_path) == [4]


def lost(*clients: int) -> RoundFailed:
    refused = {client: "loss turned nan" for client in range(4) if client not in clients}
    silent = dict.fromkeys(clients, "no reply")
    return RoundFailed("round 8: too few", 8, {**refused, **silent}, refused.keys())


def test_who_stood_out_since_the_last_evaluation_is_left_out_and_stays_so(tmp_path: Path):
    words: list[str] = []
    recovery = Recovery(tmp_path, words.append)
    save(tmp_path, 4, evaluated=True)
    save(tmp_path, 5, evaluated=False)
    recovery.note({"bounded": {"1": "change 6 times the usual norm"}})
    recovery.note({"test_loss": 0.9})
    recovery.note({"bounded": {"2": "change 1e+30 times the usual norm"}})
    setup = recovery.recover(SETUP, lost())
    assert setup.left_out == {2}
    assert rounds_kept(tmp_path) == [4]
    assert "going back to round 4" in words[0]
    assert "client 2 left out" in words[1]
    assert set(Recovery(tmp_path, words.append).left_out) == {2}
    _, orders = begin_round(setup, replace(STATE, round=4))
    assert sorted(orders) == [0, 1, 3]


def test_where_nobody_stands_out_it_is_tried_once_more_and_then_said(tmp_path: Path):
    recovery = Recovery(tmp_path, lambda words: None)
    assert recovery.recover(SETUP, lost()).left_out == frozenset()
    with pytest.raises(UnsoundError, match="lost again, and no client stands out"):
        recovery.recover(SETUP, lost())


def test_a_round_that_fails_for_other_reasons_goes_on_from_the_last_checkpoint(tmp_path: Path):
    save(tmp_path, 4, evaluated=True)
    save(tmp_path, 5, evaluated=False)
    refused = {0: "no reply", 1: "no reply", 2: "loss turned nan", 3: "garbage"}
    error = RoundFailed("too few", 6, refused, {2})
    assert Recovery(tmp_path, lambda words: None).recover(SETUP, error) == SETUP
    assert rounds_kept(tmp_path) == [4, 5]


def test_who_did_not_prune_first_is_passed_over_for_that_and_takes_part_in_rounds(tmp_path: Path):
    setup = small_setup(small_federation(), small_config(initial={"clients": 1}))
    assert list(setup.choose_cohort(0)) == [0]
    recovery = Recovery(tmp_path, lambda words: None)
    for silent, expected in ((0, 1), (1, 2), (2, 3)):
        setup = recovery.recover(setup, RoundFailed("nobody", 0, {silent: "no reply"}))
        assert list(setup.choose_cohort(0)) == [expected]
    assert sorted(setup.choose_cohort(1)) == [0, 1, 2, 3]
    # when all had their time, the first is asked again
    setup = recovery.recover(setup, RoundFailed("nobody", 0, {3: "no reply"}))
    assert list(setup.choose_cohort(0)) == [0]
