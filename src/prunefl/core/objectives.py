"""What a network is trained for: the losses, what each expects of samples, and the metric that judges the model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunefl.config import Config
from prunefl.config.losses import metric_of
from prunefl.system.errors import PruneFLError

Tally = NDArray[np.float64]
"""What a metric adds up over samples, shape (k,): a metric is known from the sum alone."""

CLASSES, POSITIONS, YES_NO, NUMBERS, ANY = "classes", "positions", "yes or no", "numbers", "anything"
"""What samples have for a target: a class; a class at every position; yes or no for every class; numbers."""


@dataclass(frozen=True)
class Metric:
    """A figure by which a model is judged.

    Attributes:
        name: as records and settings have it; `words` as people do.
        higher: whether more is better.
        percent: whether it is a share, shown in per cent.
        tally: outputs (B, ...) and targets -> what is added up.
        score: the sum -> the figure.
    """

    name: str
    words: str
    higher: bool
    percent: bool
    tally: Callable[[NDArray[Any], NDArray[Any]], Tally]
    score: Callable[[Tally], float]

    def reaches(self, value: float, target: float) -> bool:
        """Return whether a value is as good as the target."""
        return value >= target if self.higher else value <= target

    def is_better(self, value: float, other: float) -> bool:
        """Return whether a value is better than another, not as good."""
        return value > other if self.higher else value < other

    def spoken(self, value: float) -> str:
        """Return a value as people read it."""
        return f"{value:.2%}" if self.percent else f"{value:.4g}"


def _right(outputs: NDArray[Any], targets: NDArray[Any]) -> Tally:
    return np.array([np.count_nonzero(outputs.argmax(1) == targets), targets.size], np.float64)


def _agreement(outputs: NDArray[Any], targets: NDArray[Any]) -> Tally:
    """Return twice the true positives, and those with all false ones: F1 over all classes together."""
    said, true = outputs > 0, targets > 0.5
    hits = np.count_nonzero(said & true)
    return np.array([2 * hits, 2 * hits + np.count_nonzero(said ^ true)], np.float64)


def _error(outputs: NDArray[Any], targets: NDArray[Any]) -> Tally:
    off = np.abs(outputs.reshape(targets.shape).astype(np.float64) - targets)
    return np.array([off.sum(), off.size], np.float64)


def _overlaps(outputs: NDArray[Any], targets: NDArray[Any]) -> Tally:
    """Return each class's intersection, then each class's union."""
    said, classes = outputs.argmax(1), range(outputs.shape[1])
    both = [np.count_nonzero((said == c) & (targets == c)) for c in classes]
    either = [np.count_nonzero((said == c) | (targets == c)) for c in classes]
    return np.array([*both, *either], np.float64)


def _mean_iou(tally: Tally) -> float:
    both, either = tally.reshape(2, -1)
    return float((both[either > 0] / either[either > 0]).mean())


def _surprise(outputs: NDArray[Any], targets: NDArray[Any]) -> Tally:
    """Return the sum of −log p of every token, and their number; outputs are (B, T, vocabulary)."""
    logits = outputs.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return np.array([(np.log(np.exp(logits).sum(-1)) - chosen).sum(), targets.size], np.float64)


def _mean(tally: Tally) -> float:
    return float(tally[0] / tally[1]) if tally[1] else 1.0


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", True, True, _right, _mean),
        Metric("f1", "F1", True, True, _agreement, _mean),
        Metric("mean_absolute_error", "mean absolute error", False, False, _error, _mean),
        Metric("mean_iou", "mean IoU", True, True, _overlaps, _mean_iou),
        Metric(
            "perplexity", "perplexity", False, False, _surprise, lambda tally: float(np.exp(_mean(tally)))
        ),
    )
}


@dataclass(frozen=True)
class Objective:
    """What a loss expects: what targets are, and where in the outputs of a batch its classes stand (None: nowhere)."""

    targets: str
    class_axis: int | None


OBJECTIVES: Mapping[str, Objective] = {
    "cross_entropy": Objective(CLASSES, 1),
    "onehot_bce": Objective(CLASSES, 1),
    "multilabel_bce": Objective(YES_NO, 1),
    "mse": Objective(NUMBERS, None),
    "pixel_cross_entropy": Objective(POSITIONS, 1),
    "token_cross_entropy": Objective(POSITIONS, -1),
}
"""By the name of the loss."""


@dataclass(frozen=True)
class Loss:
    """A loss as pure data, for any backend to compute.

    Attributes:
        name: one of OBJECTIVES, or package.module:function from outputs and targets to one number.
        label_smoothing: of the cross-entropies, as in torch.
        class_weights: one for each class, as in torch; () for none.
        metric: by which the model is judged.
    """

    name: str
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] = ()
    metric: str = "accuracy"

    @property
    def objective(self) -> Objective:
        """What it expects of samples."""
        return OBJECTIVES.get(self.name, Objective(ANY, None))

    @property
    def judged_by(self) -> Metric:
        """The metric itself."""
        return METRICS[self.metric]


def loss_of(config: Config) -> Loss:
    """Return the loss that a config names."""
    training = config.training
    return Loss(training.loss, training.label_smoothing, training.class_weights, metric_of(config))


def check_class_weights(loss: Loss, classes: int) -> None:
    """Refuse weights that are not one for each class."""
    if loss.class_weights and len(loss.class_weights) != classes:
        raise PruneFLError(
            f"training.class_weights={list(loss.class_weights)}, must be {classes} numbers, one for each class"
        )


def check_targets(loss: Loss, targets: NDArray[Any], classes: int, who: str) -> None:
    """Refuse targets that the loss cannot be computed from."""
    wanted, whole = loss.objective.targets, targets.dtype.kind in "iu"
    if wanted == CLASSES and not (whole and targets.ndim == 1):
        raise _misfit(loss, who, targets, "must be one class a sample, a whole number from 0 on")
    if wanted == POSITIONS and not (whole and targets.ndim > 1):
        raise _misfit(loss, who, targets, "must be a class, a whole number, at every position")
    if wanted == YES_NO and not (targets.shape[1:] == (classes,) and np.isin(targets, (0, 1)).all()):
        raise _misfit(loss, who, targets, f"must be 0 or 1 for each of {classes} classes")
    if wanted == NUMBERS and not np.isfinite(targets).all():
        raise _misfit(loss, who, targets, "must be numbers")
    if wanted == POSITIONS and (targets.min() < 0 or targets.max() >= classes):
        raise _misfit(loss, who, targets, f"must be in 0..{classes - 1}")


def _misfit(loss: Loss, who: str, targets: NDArray[Any], rule: str) -> PruneFLError:
    given = f"targets of shape {targets.shape[1:]} and type {targets.dtype}"
    return PruneFLError(f"training.loss={loss.name!r}: {who} has {given}, {rule}")
