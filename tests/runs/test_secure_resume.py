"""A secure run that is stopped and goes on comes to the bits of one that was not; with noise, and counts it once."""

from pathlib import Path
from typing import Any

import pytest

from prunefl import config as settings
from prunefl.runs.api import run_config

TABLES: dict[str, Any] = {
    "run": {"rounds": 9, "eval_every": 3, "workers": 1, "method": "further-only", "checkpoint_every": 2},
    "data": {"name": "digits", "partition": "iid", "clients": 4},
    "model": {"name": "lenet300100"},
    "training": {"local_steps": 2, "learning_rate": 0.1, "weighting": "uniform"},
    "pruning": {"interval": 3},
    "server": {"max_change": 0, "max_opposition": 0, "max_statistic": 0},
}


@pytest.mark.parametrize(
    "sections",
    [
        {"privacy": {"secure": True}},
        {"privacy": {"secure": True}, "wire": {"precision": "int8"}},
        {"privacy": {"secure": True}, "evaluation": {"share": 0.2}},
        {"privacy": {"secure": True, "noise": 0.01, "quantile": 0.5, "delta": 1e-2}},
    ],
    ids=["secure", "sixteen bits", "evaluation", "with noise"],
)
@pytest.mark.parametrize("at", [3, 5])
def test_a_stopped_and_resumed_secure_run_has_the_bits_of_one_that_was_not(
    sections: dict[str, Any], at: int, tmp_path: Path
) -> None:
    tables = {name: dict(table) for name, table in TABLES.items()}
    for name, table in sections.items():
        tables[name] = tables.get(name, {}) | table
    config = settings.from_tables(tables)
    whole = run_config(config, tmp_path / "whole")
    stopped = run_config(config, tmp_path / "parts", on_record=lambda record: record.get("round") == at)
    assert not stopped.finished
    resumed = run_config(config, tmp_path / "parts", resume=True)
    assert resumed.state.masks == whole.state.masks
    assert {n: v.tobytes() for n, v in resumed.state.values.items()} == {
        n: v.tobytes() for n, v in whole.state.values.items()
    }
    ours, theirs = ([r for r in one.records if r["kind"] == "round"] for one in (resumed, whole))
    assert [r.get("privacy") for r in ours] == [r.get("privacy") for r in theirs]
    assert [r["round"] for r in ours] == list(range(1, 10))
