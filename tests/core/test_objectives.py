"""Metrics from sums over batches against their definitions on all samples at once."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from prunefl.config import from_tables
from prunefl.core.objectives import METRICS, Loss, check_targets, loss_of


def in_batches(name, outputs, targets):
    metric = METRICS[name]
    return metric.score(
        sum(metric.tally(outputs[i : i + 7], targets[i : i + 7]) for i in range(0, len(outputs), 7))
    )


def test_accuracy_is_the_share_that_is_right(rng):
    outputs, targets = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    assert in_batches("accuracy", outputs, targets) == (outputs.argmax(1) == targets).mean()


def test_f1_is_that_of_precision_and_recall_over_all_classes(rng):
    outputs, targets = rng.normal(size=(50, 4)), rng.integers(0, 2, (50, 4))
    said = outputs > 0
    precision, recall = (targets[said] == 1).mean(), said[targets == 1].mean()
    expected = 2 * precision * recall / (precision + recall)
    assert in_batches("f1", outputs, targets) == pytest.approx(expected)


def test_mean_absolute_error_takes_a_column_for_numbers(rng):
    outputs, targets = rng.normal(size=(50, 1)), rng.normal(size=50)
    expected = np.abs(outputs[:, 0] - targets).mean()
    assert in_batches("mean_absolute_error", outputs, targets) == pytest.approx(expected)


def test_mean_iou_is_the_mean_over_classes_that_are_there(rng):
    outputs, targets = rng.normal(size=(20, 4, 3, 3)), rng.integers(0, 3, (20, 3, 3))
    outputs[:, 3] = -9  # a class that nobody has and nobody says
    said = outputs.argmax(1)
    each = [((said == c) & (targets == c)).sum() / ((said == c) | (targets == c)).sum() for c in range(3)]
    assert in_batches("mean_iou", outputs, targets) == pytest.approx(np.mean(each))


def test_perplexity_is_the_exponential_of_the_cross_entropy(rng):
    outputs, targets = rng.normal(size=(20, 5, 11)) * 3, rng.integers(0, 11, (20, 5))
    loss = F.cross_entropy(torch.tensor(outputs).flatten(0, 1), torch.tensor(targets).flatten())
    assert in_batches("perplexity", outputs, targets) == pytest.approx(float(loss.exp()))


def test_what_is_better_is_known():
    assert METRICS["accuracy"].reaches(0.9, 0.8)
    assert not METRICS["accuracy"].reaches(0.7, 0.8)
    assert METRICS["perplexity"].reaches(7.0, 8.0)
    assert not METRICS["mean_absolute_error"].reaches(9.0, 8.0)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"loss": "mse", "metric": "f1"}, r"^training.metric='f1', must be 'mean_absolute_error' with"),
        (
            {"loss": "mse", "label_smoothing": 0.1},
            r"^training.label_smoothing=0.1 is a setting of cross_entropy",
        ),
        (
            {"loss": "onehot_bce", "class_weights": [1.0]},
            r"^training.class_weights is a setting of cross_entropy",
        ),
        (
            {"class_weights": [1.0, -1.0]},
            r"^training.class_weights=\[1.0, -1.0\], must be >= 0, and one of them above$",
        ),
        (
            {"loss": "crossentropy"},
            r"^training.loss='crossentropy', must be one of .* or package.module:function$",
        ),
    ],
)
def test_settings_of_another_loss_are_refused(training, message):
    with pytest.raises(ValueError, match=message):
        from_tables({"training": training})


def test_a_target_of_a_metric_that_the_task_does_not_have_is_refused():
    with pytest.raises(
        ValueError, match=r"^run.target_accuracy=0.8, but training.loss='mse' is judged by mean_abs"
    ):
        from_tables({"training": {"loss": "mse"}, "run": {"target_accuracy": 0.8}})
    with pytest.raises(
        ValueError, match=r"^run.target_score=3.0, but this task has accuracy: run.target_accuracy$"
    ):
        from_tables({"run": {"target_score": 3}})
    with pytest.raises(ValueError, match=r"^evaluation.share=0.2, must be 0: clients evaluate accuracy, and"):
        from_tables({"training": {"loss": "mse"}, "evaluation": {"share": 0.2}})


def test_an_own_loss_says_its_metric():
    config = from_tables({"training": {"loss": "a.b:c", "metric": "perplexity"}})
    assert loss_of(config).judged_by is METRICS["perplexity"]


@pytest.mark.parametrize(
    ("loss", "targets", "rule"),
    [
        ("cross_entropy", np.zeros(3, np.float32), "one class a sample, a whole number from 0 on"),
        ("pixel_cross_entropy", np.zeros(3, np.int64), "a class, a whole number, at every position"),
        ("token_cross_entropy", np.full((3, 5), 4), r"in 0\.\.3"),
        ("multilabel_bce", np.zeros((3, 5)), "0 or 1 for each of 4 classes"),
        ("multilabel_bce", np.full((3, 4), 2), "0 or 1 for each of 4 classes"),
        ("mse", np.array([1.0, np.nan]), "numbers"),
    ],
)
def test_targets_that_a_loss_cannot_use_are_refused_by_its_name(loss, targets, rule):
    with pytest.raises(
        ValueError, match=rf"^training.loss='{loss}': client 3 has targets of shape .* must be {rule}$"
    ):
        check_targets(Loss(loss), targets, 4, "client 3")
