"""MLflow: into $MLFLOW_TRACKING_URI if it is set, else into files in FOLDER/mlruns."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from prunefl.loggers import Record, scalars, settings

# a file store is out of fashion with MLflow, which asks for this word before it opens one
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")


class MLflow:
    """One MLflow run of the experiment 'prunefl' for one run of ours."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        given = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = MlflowClient(given or (folder / "mlruns").resolve().as_uri())
        found = self._client.get_experiment_by_name("prunefl")
        experiment = found.experiment_id if found else self._client.create_experiment("prunefl")
        self._run = self._client.create_run(experiment, run_name=folder.name).info.run_id
        # MLflow refuses parameters of more than 6,000 characters
        texts = {key: value[:6000] for key, value in settings(config).items()}
        self._client.log_batch(self._run, params=[Param(key, value) for key, value in texts.items()])

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
