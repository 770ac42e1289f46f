"""Callbacks: when a run is stopped, and what is written of it."""

import io

import pytest

from prunefl.core.objectives import METRICS
from prunefl.runs.api import train
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
