"""`examples/flower-app` in Flower's layout: its settings are sound, its parts are found, and Ray carries its rounds."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the flower extra is not installed")

from flwr.supercore.constant import DEFAULT_SIMULATION_CONFIG

from prunefl import config as settings
from prunefl.runs.api import run_config
from prunefl.wire.model_file import load_model

ROOT = Path(__file__).parent.parent.parent
APP = ROOT / "examples" / "flower-app"
SMALL = """
[run]
rounds = 2
[data]
clients = 2
[model]
name = "lenet"
[initial]
samples = 60
max_passes = 4
"""


def flattened(tables: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return tables as Flower hands them to an app: section.key -> value."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        found |= flattened(value, f"{above}{key}.") if isinstance(value, dict) else {above + key: value}
    return found


def test_the_apps_settings_are_sound_and_fit_its_federation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(APP))
    tool = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]
    given = flattened(tool["app"]["config"])
    config = importlib.import_module("prunefl_app.server_app").config_of(given)
    assert config.run.rounds == given["run.rounds"]
    # Flower rewrites an app's file that says how many are simulated; what it simulates by default has to fit
    assert "federations" not in tool
    assert config.data.clients == DEFAULT_SIMULATION_CONFIG.num_supernodes
    for name in tool["app"]["components"].values():
        module, _, attribute = name.partition(":")
        assert hasattr(importlib.import_module(module), attribute)


def test_ray_gives_the_bits_of_prunefl_run(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    pytest.importorskip("mlxtend", reason="the demo extra is not installed")
    (tmp_path / "small.toml").write_text(SMALL)
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "examples" / "flower" / "simulate.py"),
            tmp_path / "small.toml",
            tmp_path / "ray",
        ],
        env=os.environ | {"RAY_worker_niceness": "0", "FLWR_TELEMETRY_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = run_config(settings.load(tmp_path / "small.toml"), tmp_path / "run")
    state, _ = load_model(tmp_path / "ray" / "model.safetensors")
    assert state.masks.digest == run.state.masks.digest
    assert all(np.array_equal(value, run.state.values[name]) for name, value in state.values.items())
