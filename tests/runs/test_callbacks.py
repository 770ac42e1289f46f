"""Callbacks: when a run is stopped, and what is written of it."""

import io

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from prunefl.commands.configs import resolve
from prunefl.core.objectives import METRICS
from prunefl.runs.api import run_config, train
from prunefl.runs.callbacks import EarlyStopping, Progress, all_told
from prunefl.system.errors import PruneFLError
from tasks import small_clients, small_config, small_data, small_model


@pytest.mark.parametrize(
    ("metric", "scores", "stops_at"),
    [
        ("accuracy", [0.1, 0.2, 0.2, 0.1], 3),
        ("accuracy", [0.1, 0.2, 0.15, 0.3, 0.4], None),
        ("perplexity", [9.0, 8.0, 8.5, 8.1], 3),
        ("perplexity", [9.0, 8.0, 7.0], None),
    ],
)
def test_a_run_stops_when_it_gets_no_better(metric, scores, stops_at):
    stop = EarlyStopping(2, metric)
    key = "accuracy" if metric == "accuracy" else "score"
    answers = [stop({"kind": "round", key: score}) for score in scores]
    assert answers == [place == stops_at for place in range(len(scores))]


def test_rounds_that_were_not_evaluated_do_not_count():
    stop = EarlyStopping(1)
    assert not stop({"kind": "round", "accuracy": 0.5})
    assert not any(stop({"kind": "round"}) for _ in range(5))
    assert stop({"kind": "round", "accuracy": 0.5})


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ((0,), "patience=0, must be >= 1"),
        ((2, "acuracy"), "metric='acuracy', must be one of accuracy, "),
    ],
)
def test_what_could_never_stop_a_run_well_is_refused(words, rule):
    with pytest.raises(PruneFLError, match=f"^EarlyStopping: {rule}"):
        EarlyStopping(*words)


@pytest.mark.parametrize(("metric", "key"), [("accuracy", "score"), ("perplexity", "accuracy")])
def test_a_stop_by_the_metric_of_another_task_is_refused(metric, key):
    with pytest.raises(
        PruneFLError, match=f"^EarlyStopping: metric='{metric}', but the task is not judged by"
    ):
        EarlyStopping(2, metric)({"kind": "round", key: 0.5})


def test_progress_is_a_line_for_each_evaluation_in_the_words_of_the_task():
    out = io.StringIO()
    tell = Progress(4, METRICS["mean_absolute_error"], out)
    tell({"kind": "initial", "density": 0.5})
    tell({"kind": "round", "round": 1, "loss": 2.0, "density": 0.5})
    tell({"kind": "round", "round": 2, "loss": 1.0, "density": 0.25, "score": 0.125})
    assert out.getvalue().splitlines() == [
        "initial pruning: density 50.0%",
        "round 2 of 4: mean absolute error 0.125, loss 1.0000, density 25.0%",
    ]


def test_all_callbacks_are_told_and_one_can_stop():
    told = []
    both = all_told(lambda record: True, None, told.append)
    assert both({"kind": "round"}) is True
    assert told == [{"kind": "round"}]


def test_a_run_without_a_folder_cannot_be_extended():
    config = small_config(run={"rounds": 1, "method": "conventional"})
    run = train(small_model(), small_clients(), test=small_data(40, 9), config=config)
    with pytest.raises(PruneFLError, match=r"^extend needs the folder of the run: train with out=FOLDER$"):
        run.extend(3)
    assert repr(run.records) == "Records(1 rounds, 3 records)"
    assert "array" not in repr(run)


def test_progress_begins_with_what_is_left_whole_and_where_a_run_goes_on(tmp_path, capsys):
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.out = nn.Embedding(9, 8), nn.Linear(8, 4)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.out(self.embedding(tokens).mean(1))

    tokens = torch.arange(60).reshape(20, 3) % 9
    samples = TensorDataset(tokens, tokens[:, 0] % 4)
    config = small_config(run={"rounds": 1, "eval_every": 1, "method": "conventional"})
    given = {"test": samples, "config": config, "out": tmp_path / "run", "progress": True}
    run = train(Tokens(), [samples, samples], **given)
    begun = capsys.readouterr().err.splitlines()[0]
    assert begun.startswith("2 clients, as given; ")
    assert "; left whole: embedding.weight; " in begun
    run.extend(1)
    assert capsys.readouterr().err.splitlines()[0].endswith("; goes on after round 1")


@pytest.mark.parametrize(("model", "guessed"), [("lenet300100", True), ("conv2", False)])
def test_a_run_says_whose_seconds_are_guessed(model, guessed):
    """The Raspberry Pi's of Conv-2 are the paper's own; nobody has measured LeNet on one."""
    told = []
    config, _ = resolve(["digits", f"model.name={model}", "run.rounds=1", "initial.max_passes=1"], None)
    run_config(config, None, on_begin=lambda begun, done: told.append(begun))
    assert ("; simulated time of raspberry-pi-4, x86 is estimated from FLOPs" in told[0]) is guessed
