"""The model of a run's best evaluation, kept beside the last one where run.keep_best asks for it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prunefl.core.objectives import Metric
from prunefl.core.state import SparseState
from prunefl.runs.records import best_evaluation, metric_of, score_of
from prunefl.wire.model_file import About, load_model, save_model


def best_file(folder: Path, round: int) -> Path:
    """Return where the model of the best round is kept: its name says which."""
    return folder / f"best-{round}.safetensors"


class BestModel:
    """Keeps the best of the models that are shown to it; goes on with what the run's records say was the best.

    Args:
        records: those that the run goes on from; what was kept of other rounds is removed.
    """

    def __init__(
        self, folder: Path, about: About, metric: Metric, records: Iterable[Mapping[str, Any]]
    ) -> None:
        self._folder, self._about, self._metric = folder, about, metric
        self.state: SparseState | None = None
        self._score: float | None = None
        self._kept: Path | None = None
        before = best_evaluation(records)
        path = None if before is None else best_file(folder, before["round"])
        for other in folder.glob("best-*.safetensors"):
            if other != path:
                other.unlink()
        if before is not None and path is not None and path.exists():
            self.state, self._score, self._kept = load_model(path)[0], score_of(before), path

    def show(self, record: Mapping[str, Any], state: SparseState) -> None:
        """Keep the model after a round if it was evaluated and is better than all before."""
        score = score_of(record)
        if score is None or not (self._score is None or self._metric.is_better(score, self._score)):
            return
        path, old = best_file(self._folder, record["round"]), self._kept
        save_model(path, state, self._about)
        self.state, self._score, self._kept = state, score, path
        if old is not None and old != path:
            old.unlink(missing_ok=True)


def keep_best(
    folder: Path, about: About, wanted: bool, records: Iterable[Mapping[str, Any]]
) -> BestModel | None:
    """Return what keeps the best model, where the run wants it."""
    records = list(records)
    return BestModel(folder, about, metric_of(records), records) if wanted else None
