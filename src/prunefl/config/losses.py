"""The losses and metrics by name, and which of them go together."""

import math
from typing import TYPE_CHECKING

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config.sections import Config

LOSSES = {
    "cross_entropy": "accuracy",
    "onehot_bce": "accuracy",
    "multilabel_bce": "f1",
    "mse": "mean_absolute_error",
    "pixel_cross_entropy": "mean_iou",
    "token_cross_entropy": "perplexity",
}
"""Each loss with its metric."""

METRICS = tuple(dict.fromkeys(LOSSES.values()))
SMOOTHED = ("cross_entropy", "pixel_cross_entropy", "token_cross_entropy")
WEIGHTED = (*SMOOTHED, "multilabel_bce")


def metric_of(config: "Config") -> str:
    """Return the metric by which the model is judged."""
    training = config.training
    return training.metric or LOSSES.get(training.loss, "accuracy")


def refuse_misfits(config: "Config") -> None:
    """Refuse settings of another loss, and targets of another metric, than the task has."""
    training, run, metric = config.training, config.run, metric_of(config)
    if training.loss in LOSSES and training.metric not in ("", LOSSES[training.loss]):
        raise PruneFLError(
            f"training.metric={training.metric!r}, must be {LOSSES[training.loss]!r} "
            f"with training.loss={training.loss!r}"
        )
    if training.label_smoothing and training.loss not in SMOOTHED:
        raise PruneFLError(
            f"training.label_smoothing={training.label_smoothing} is a setting of {', '.join(SMOOTHED)}, "
            f"but training.loss={training.loss!r}"
        )
    if training.class_weights and training.loss not in WEIGHTED:
        raise PruneFLError(
            f"training.class_weights is a setting of {', '.join(WEIGHTED)}, but training.loss={training.loss!r}"
        )
    weights = training.class_weights
    if weights and not (all(0 <= weight < math.inf for weight in weights) and any(weights)):
        raise PruneFLError(f"training.class_weights={list(weights)}, must be >= 0, and one of them above")
    if metric == "accuracy" and run.target_score:
        raise PruneFLError(
            f"run.target_score={run.target_score}, but this task has accuracy: run.target_accuracy"
        )
    if metric != "accuracy" and run.target_accuracy:
        raise PruneFLError(
            f"run.target_accuracy={run.target_accuracy}, but training.loss={training.loss!r} is judged by {metric}: "
            "run.target_score"
        )
    if metric != "accuracy" and config.evaluation.share:
        raise PruneFLError(
            f"evaluation.share={config.evaluation.share}, must be 0: clients evaluate accuracy, "
            f"and training.loss={training.loss!r} is judged by {metric}"
        )
