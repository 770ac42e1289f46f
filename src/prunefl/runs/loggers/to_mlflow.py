"""MLflow: into $MLFLOW_TRACKING_URI if it is set, else into files in FOLDER/mlruns."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from prunefl.runs.loggers import Record, run_name, scalars, settings
from prunefl.system.files import write_atomically

ID_FILE = "mlflow-run.txt"
"""MLflow's id of the run, in its folder: a run that is resumed goes on in it."""

# a file store is out of fashion with MLflow, which asks for this word before it opens one
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")


class MLflow:
    """One MLflow run of the experiment 'prunefl' for one run of ours."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        given = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = MlflowClient(given or (folder / "mlruns").resolve().as_uri())
        self._run = self._begun(folder / ID_FILE) or self._new(folder, config)

    def _begun(self, kept: Path) -> str | None:
        """Return the run that was begun in this folder, marked as running again, or None if there is none."""
        if not kept.exists():
            return None
        run = kept.read_text().strip()
        try:
            self._client.update_run(run, status="RUNNING")
        except MlflowException:
            # begun at another $MLFLOW_TRACKING_URI, or deleted since
            return None
        return run

    def _new(self, folder: Path, config: Mapping[str, Any]) -> str:
        found = self._client.get_experiment_by_name("prunefl")
        experiment = found.experiment_id if found else self._client.create_experiment("prunefl")
        run: str = self._client.create_run(experiment, run_name=run_name(folder)).info.run_id
        # MLflow refuses parameters of more than 6,000 characters
        texts = {key: value[:6000] for key, value in settings(config).items()}
        self._client.log_batch(run, params=[Param(key, value) for key, value in texts.items()])
        write_atomically(folder / ID_FILE, run.encode())
        return run

    def round(self, record: Record) -> None:
        """Log a round."""
        if record.get("kind") == "round":
            now, step = int(1000 * time.time()), int(record["round"])
            metrics = [Metric(name, value, now, step) for name, value in scalars(record)]
            self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._run)


def open(folder: Path, config: Mapping[str, Any]) -> MLflow:
    """Return a logger that writes to MLflow."""
    return MLflow(folder, config)
