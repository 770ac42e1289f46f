"""What a run leaves for others to read: JSON lines, one a round. Reports read these, never live objects.

`record_types` is their schema.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from prunefl.core.objectives import METRICS, Metric
from prunefl.system.errors import PruneFLError
from prunefl.system.files import naming

if TYPE_CHECKING:
    from pandas import DataFrame

Record = dict[str, Any]
"""Any record, as it is read back; its `kind` says which of `record_types` it fits."""


class RecordFile:
    """Appends records to a file; a resumed run first takes back what its checkpoint had not seen."""

    def __init__(self, path: Path, keep_bytes: int = 0) -> None:
        self.path = path
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(keep_bytes)
        self._file.seek(keep_bytes)

    @property
    def num_bytes(self) -> int:
        """Length of what has been written and kept so far."""
        return self._file.tell()

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record; it is in the file when this returns."""
        with naming(self.path):
            self._file.write(json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n")
            self._file.flush()

    def sync(self) -> None:
        """Have what was written outlive a power cut; a checkpoint must not know of records that are gone."""
        os.fsync(self._file.fileno())

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class Records(list[Record]):
    """A run's records, in order."""

    def __repr__(self) -> str:
        kinds = [record["kind"] for record in self]
        return f"Records({kinds.count('round')} rounds, {len(self)} records)"

    def to_pandas(self) -> "DataFrame":
        """Return a table with a row for each round; what is a table within a record becomes columns, total.seconds."""
        try:
            from pandas import json_normalize
        except ImportError as error:
            raise PruneFLError("to_pandas needs pandas: pip install pandas") from error
        rounds = [record for record in self if record["kind"] == "round"]
        return json_normalize(rounds).set_index("round") if rounds else json_normalize([])


def read_records(path: Path) -> Records:
    """Return the readable records of a file; a last line that was cut off is left out."""
    return Records(_lines(path))


def _lines(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return


def read_header(path: Path) -> Record:
    """Return the first record of a file, or nothing where there is none yet."""
    try:
        return next(_lines(path), {})
    except OSError:
        return {}


def evaluations(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rounds in which the model was judged, at the server or, where it has no test set, at clients."""
    return (r for r in records if r["kind"] == "round" and score_of(r) is not None)


def metric_of(records: Iterable[Mapping[str, Any]]) -> Metric:
    """Return the metric by which a run's models are judged: accuracy, unless its first record says another."""
    named = (record.get("metric", "accuracy") for record in records if record["kind"] == "run")
    return METRICS[next(named, "accuracy")]


def score_of(record: Mapping[str, Any]) -> float | None:
    """Return a round's metric: the score where the task has no accuracy, else the accuracy, or None."""
    return float(record["score"]) if record.get("score") is not None else accuracy_of(record)


def accuracy_of(record: Mapping[str, Any]) -> float | None:
    """Return a round's accuracy on the test set, else at the clients by samples, or None where there is neither."""
    if record.get("accuracy") is not None:
        return float(record["accuracy"])
    return clients_accuracy_of(record)


def clients_accuracy_of(record: Mapping[str, Any]) -> float | None:
    """Return a round's accuracy at the clients, by samples, or None."""
    found = record.get("evaluation")
    return float(found["accuracy"]) if isinstance(found, Mapping) else None


def final_score(records: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the metric of the model that the run delivers: its last evaluation; None before the first."""
    return next((score_of(record) for record in reversed(list(evaluations(records)))), None)


def best_evaluation(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the record of the round whose model was judged best, the first of equals; None before the first."""
    records = list(records)
    metric, best = metric_of(records), None
    for record in evaluations(records):
        if best is None or metric.is_better(score_of(record) or 0.0, score_of(best) or 0.0):
            best = record
    return best


def final_accuracy(records: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the accuracy of the model that the run delivers: its last evaluation; None before the first."""
    return next(reversed(_accuracies(records)), None)


def mean_accuracy(records: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean over the last tenth of the evaluations, rounded up; None before the first."""
    found = _accuracies(records)
    tenth = -(-len(found) // 10)
    return sum(found[-tenth:]) / tenth if found else None


def _accuracies(records: Iterable[Mapping[str, Any]]) -> list[float]:
    return [found for record in evaluations(records) if (found := accuracy_of(record)) is not None]


def cost_to_reach(
    records: Iterable[Mapping[str, Any]], target: float, metric: Metric = METRICS["accuracy"]
) -> Mapping[str, Any] | None:
    """Return the round's record, with its totals, at which the metric first was as good as the target, or None."""
    judged = ((record, score_of(record)) for record in evaluations(records))
    return next((r for r, score in judged if score is not None and metric.reaches(score, target)), None)
