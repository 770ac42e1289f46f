"""A method from outside the package runs like one of ours."""

from pathlib import Path

import pytest

from prunefl.core.masks import live_counts
from prunefl.methods import build_pruner
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_example_prunes_once_after_its_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    config = small_config(
        run={"method": "own_pruner:after_warm_up", "rounds": 30},
        pruning={"density": 0.25},
        data={"clients": 4},
    )
    run = train(small_model(), small_clients(), test=small_data(20, 9), config=config)
    densities = [record["density"] for record in run.records if record["kind"] == "round"]
    assert densities[:2] == [1.0, 1.0]
    assert len(set(densities[2:])) == 1
    assert live_counts(run.masks) == {"0.weight": 18, "4.weight": 1024, "6.weight": 32}


def test_a_method_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with pytest.raises(
        ValueError, match=r"run.method='own_pruner:nothing', module 'own_pruner' has no function"
    ):
        build_pruner(small_config(run={"method": "own_pruner:nothing"}))
    with pytest.raises(
        ValueError, match=r"run.method='nothing', must be one of prunefl, .* or package.module:function"
    ):
        build_pruner(small_config(run={"method": "nothing"}))
