"""With run.keep_best the model of the best evaluation is kept: the one that a run of so many rounds delivers."""

import numpy as np
import pytest
from torch.utils.data import TensorDataset

import prunefl
from prunefl.runs.records import best_evaluation
from prunefl.system.errors import PruneFLError
from prunefl.wire.model_file import load_model
from tasks import same_bits, small_clients, small_config, small_data, small_model

ROUNDS = 12


def mislabelled() -> TensorDataset:
    """Return test data on which training does harm sooner or later: every label is the wrong way round."""
    images, labels = small_data(60, seed=99).tensors
    return TensorDataset(images, labels.flip(0))


def go(out, rounds=ROUNDS, keep=True, **options):
    run = {"rounds": rounds, "eval_every": 1, "method": "conventional", "keep_best": keep}
    config = small_config(run=run)
    return prunefl.train(
        small_model(), small_clients(), test=mislabelled(), config=config, out=out, **options
    )


def test_the_best_model_is_that_of_a_run_which_ended_there_also_after_a_stop(tmp_path):
    whole = go(tmp_path / "whole")
    scores = [record["accuracy"] for record in whole.records if "accuracy" in record]
    best = int(np.argmax(scores)) + 1
    assert best < ROUNDS, "the test would show nothing"
    assert whole.records[-1]["best_round"] == best == best_evaluation(whole.records)["round"]
    assert whole.records[-1]["best_score"] == max(scores)
    ended_there = go(None, best, keep=False)
    assert same_bits(whole.best_model.state_dict(), ended_there.model.state_dict())
    files = {path.name for path in (tmp_path / "whole").glob("best-*")}
    assert files == {f"best-{best}.safetensors"}

    stopped = go(tmp_path / "x", on_record=lambda record: record.get("round") == best + 1)
    assert not stopped.finished
    resumed = go(tmp_path / "x", resume=True)
    assert same_bits(whole.best_model.state_dict(), resumed.best_model.state_dict())
    kept, _ = load_model(tmp_path / "x" / f"best-{best}.safetensors")
    assert all(np.array_equal(kept.values[name], value) for name, value in whole.best.values.items())


def test_who_did_not_ask_for_the_best_model_is_told():
    run = go(None, 1, keep=False)
    assert "best_round" not in run.records[-1]
    with pytest.raises(PruneFLError, match=r"^best_model needs run.keep_best=true"):
        _ = run.best_model


def test_a_run_draws_itself_as_the_public_function_does():
    pytest.importorskip("matplotlib")
    run = go(None, 2, keep=False)
    drawn, wanted = (
        [line.get_ydata().tolist() for axes in figure.axes for line in axes.lines]
        for figure in (run.plot(run), prunefl.plot(run, run))
    )
    assert drawn == wanted
    assert drawn[0] == [100 * record["accuracy"] for record in run.records if record["kind"] == "round"]
