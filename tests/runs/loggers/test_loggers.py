"""What each tool reads back is what the run recorded; without the tool, the message says what to install."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from prunefl.runs import loggers
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model

CONFIG = {"run": {"method": "snip", "seed": 3}, "data": {"name": "digits"}}


def rounds() -> list[dict[str, Any]]:
    common = {"kind": "round", "seconds": {"total": 2.5}, "total": {"seconds": 5.0}, "live": {"0.weight": 7}}
    return [
        {**common, "round": 1, "loss": 2.0, "density": 0.5},
        {**common, "round": 2, "loss": 1.0, "density": 0.25, "accuracy": 0.75, "test_loss": 1.5},
    ]


def log(name: str, folder: Path) -> None:
    logger = loggers.open(name, folder, CONFIG)
    logger.round({"kind": "initial", "segments": []})
    for record in rounds():
        logger.round(record)
    logger.close()


def test_the_scalars_of_a_round_by_group() -> None:
    assert dict(loggers.scalars(rounds()[1])) == {
        "train/loss": 1.0,
        "test/accuracy": 0.75,
        "test/loss": 1.5,
        "model/density": 0.25,
        "seconds/total": 2.5,
        "total/seconds": 5.0,
        "live/0.weight": 7.0,
    }


def test_tensorboard_reads_back_what_was_recorded(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra prunefl[tensorboard] is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(1, 2.0), (2, 1.0)]
    assert [(event.step, event.value) for event in events.Scalars("test/accuracy")] == [(2, 0.75)]


def test_mlflow_reads_back_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="the extra prunefl[mlflow] is not installed", exc_type=ImportError)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    log("mlflow", tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("prunefl")
    run = client.search_runs([experiment.experiment_id])[0]
    assert run.info.status == "FINISHED"
    assert run.data.params["run.method"] == "snip"
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 2.0), (2, 1.0)]


def test_a_seed_of_a_comparison_is_named_with_its_variant() -> None:
    assert loggers.run_name(Path("runs/femnist-compare/snip_density-0.3/seed-1")) == "snip_density-0.3/seed-1"
    assert loggers.run_name(Path("runs/digits-prunefl-0")) == "digits-prunefl-0"


def test_a_resumed_run_goes_on_in_its_mlflow_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="the extra prunefl[mlflow] is not installed", exc_type=ImportError)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    from mlflow import MlflowClient

    for record in rounds():
        logger = loggers.open("mlflow", tmp_path, CONFIG)
        logger.round(record)
        logger.close()
    client = MlflowClient((tmp_path / "mlruns").as_uri())
    runs = client.search_runs([client.get_experiment_by_name("prunefl").experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"]
    history = client.get_metric_history(runs[0].info.run_id, "train/loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 2.0), (2, 1.0)]


def test_a_resumed_run_whose_mlflow_run_is_elsewhere_begins_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="the extra prunefl[mlflow] is not installed", exc_type=ImportError)
    log("mlflow", tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "other").as_uri())
    log("mlflow", tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient((tmp_path / "other").as_uri())
    runs = client.search_runs([client.get_experiment_by_name("prunefl").experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"]


def test_wandb_writes_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the extra prunefl[wandb] is not installed", exc_type=ImportError)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    log("wandb", tmp_path)
    files = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 1
    # its own process writes the file, and may be a moment behind
    until = time.monotonic() + 20
    while b"train/loss" not in files[0].read_bytes() and time.monotonic() < until:
        time.sleep(0.05)
    assert b"train/loss" in files[0].read_bytes()
    assert b"run.method" in files[0].read_bytes()


def test_a_run_tells_its_loggers_every_round_and_closes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []

    class Listener:
        def round(self, record: Any) -> None:
            heard.append(record["kind"])

        def close(self) -> None:
            heard.append("closed")

    monkeypatch.setattr(loggers, "open", lambda name, folder, config: Listener())
    config = small_config(run={"method": "conventional", "rounds": 2, "loggers": ["tensorboard"]})
    train(small_model(), small_clients(), test=small_data(20, 9), config=config)
    assert heard == ["round", "round", "closed"]


def test_an_unknown_logger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'comet', must be one of tensorboard, mlflow, wandb"):
        loggers.open("comet", tmp_path, CONFIG)


def test_a_missing_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "prunefl.runs.loggers.to_wandb", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=r"pip install 'prunefl\[wandb\]'"):
        loggers.open("wandb", tmp_path, CONFIG)


def test_importing_prunefl_and_its_loggers_loads_none_of_the_tools() -> None:
    code = "import json, sys, prunefl, prunefl.runs.loggers; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert {"tensorboard", "mlflow", "wandb", "matplotlib", "jinja2", "torch"}.isdisjoint(loaded)
