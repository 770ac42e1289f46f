"""Runs whose clients evaluate: what the records say, and that training does not notice."""

import json
from pathlib import Path
from typing import Any

import pytest

from prunefl.engines.simulator import Simulator
from prunefl.runs.api import train
from prunefl.runs.records import cost_to_reach, evaluations, final_accuracy
from prunefl.runs.runner import Run, execute
from prunefl.system.errors import PruneFLError
from tasks import (
    same_bits,
    small_clients,
    small_config,
    small_data,
    small_federation,
    small_model,
    small_setup,
)

WIRE = {"precision": "int8", "importance": "log8"}


def run(
    out: Path | None = None, rounds: int = 6, every: int = 2, resume: bool = False, **sections: Any
) -> Run:
    sections = {"evaluation": {"share": 0.2}, **sections}
    config = small_config(run={"rounds": rounds, "eval_every": every}, **sections)
    test = small_data(80, 99)
    return train(small_model(True, True), small_clients(), test=test, config=config, out=out, resume=resume)


def rounds_of(finished: Run) -> list[dict[str, Any]]:
    return [record for record in finished.records if record["kind"] == "round"]


@pytest.mark.parametrize("window", [1, "all"])
def test_who_is_asked_to_evaluate_trains_the_same_bits_as_who_is_not(window: Any) -> None:
    # quantised, with masks that change and clients that are away: all that a message could leave behind
    sections = {"wire": WIRE, "training": {"participants": 2}, "importance": {"window": window}}
    often, once = run(every=1, **sections), run(every=100, **sections)
    assert often.state.masks == once.state.masks
    assert same_bits(often.state.values, once.state.values)
    for one, other in zip(rounds_of(often), rounds_of(once), strict=True):
        same = ("loss", "seconds", "bytes_up", "bytes_down", "flops", "density", "predicted_seconds")
        assert {name: one[name] for name in same} == {name: other[name] for name in same}


def test_the_rounds_cohort_evaluates_and_all_clients_at_the_end() -> None:
    records = rounds_of(run(rounds=5, training={"participants": 2}))
    assert [r["round"] for r in records if "evaluation" in r] == [2, 4, 5]
    for record in records[1], records[3]:
        assert list(record["evaluation"]["by_client"]) == [str(client) for client in record["clients"]]
        assert record["evaluation"]["clients"] == 2
    # 60, 67, 74 and 81 samples, a fifth of each
    held_out = [samples for _, samples in records[4]["evaluation"]["by_client"].values()]
    assert held_out == [12, 13, 15, 16]
    assert records[4]["evaluation"]["samples"] == 56


def test_totals_are_the_sums_of_rounds_and_evaluations() -> None:
    finished = run()
    spent = [r for r in finished.records if r["kind"] in ("initial", "round")]
    parts = [*spent, *(r["evaluation"] for r in spent if "evaluation" in r)]
    total = spent[-1]["total"]
    assert total["bytes_up"] == sum(part["bytes_up"] for part in parts)
    assert total["bytes_down"] == sum(part["bytes_down"] for part in parts)
    assert total["seconds"] == pytest.approx(sum(part["seconds"]["total"] for part in parts))
    assert total["flops"] == pytest.approx(sum(part["flops"] for part in parts))
    assert all(r["evaluation"]["bytes_up"] == 4 * 24 for r in spent if "evaluation" in r)


def test_without_a_test_set_accuracy_is_that_at_the_clients(tmp_path: Path) -> None:
    federation = small_federation()
    setup = small_setup(federation, small_config(evaluation={"share": 0.2}))
    with Simulator(setup, federation.clients, tmp_path / "clients") as engine:
        finished = execute(setup, engine, None, "own", tmp_path, False, lambda record: None)
    found = [r["evaluation"]["accuracy"] for r in rounds_of(finished) if "evaluation" in r]
    assert len(found) == 4
    assert not any("accuracy" in r or "test_loss" in r for r in rounds_of(finished))
    assert finished.accuracy == finished.records[-1]["accuracy"] == found[-1]
    best = max(found)
    reached = cost_to_reach(finished.records, best)
    assert reached is not None
    assert reached["evaluation"]["accuracy"] == best


def test_with_a_test_set_accuracy_is_that_on_it() -> None:
    finished = run()
    tested = [r["accuracy"] for r in evaluations(finished.records)]
    assert final_accuracy(finished.records) == tested[-1]


def test_a_run_goes_on_to_more_rounds_as_if_it_had_had_them_from_the_start(tmp_path: Path) -> None:
    sections = {"training": {"participants": 2}}
    run(tmp_path / "extended", rounds=4, **sections)
    extended = run(tmp_path / "extended", resume=True, **sections)
    straight = run(tmp_path / "straight", **sections)
    assert same_bits(extended.state.values, straight.state.values)
    assert timeless(extended.records) == timeless(straight.records)


def timeless(records: list[dict[str, Any]]) -> str:
    for record in records:
        record.pop("wall_seconds", None)
        record.pop("started", None)
        record.get("total", {}).pop("wall_seconds", None)
    return json.dumps(records)


def test_a_share_that_leaves_a_client_nothing_to_train_on_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(PruneFLError, match="client 0 has 60 samples and would hold out 60"):
        run(tmp_path / "out", evaluation={"share": 0.995})
    assert not (tmp_path / "out" / "records.jsonl").exists()


def test_personal_models_need_samples_to_be_evaluated_on() -> None:
    with pytest.raises(PruneFLError, match=r"evaluation.personal_steps=5 needs evaluation.share > 0"):
        small_config(evaluation={"personal_steps": 5})


def test_personal_models_change_nothing_of_the_run() -> None:
    plain, personal = run(), run(evaluation={"share": 0.2, "personal_steps": 5})
    assert same_bits(plain.state.values, personal.state.values)
    one, other = rounds_of(plain)[-1]["evaluation"], rounds_of(personal)[-1]["evaluation"]
    assert one["by_client"] == other["by_client"]
    assert other["personal"].keys() == {"0", "1", "2", "3"}
    assert "personal" not in one


@pytest.mark.parametrize("share", [1.0, -0.1, 1.5])
def test_a_share_is_below_one(share: float) -> None:
    with pytest.raises(PruneFLError, match=r"evaluation.share=.*, must be >= 0 and < 1"):
        small_config(evaluation={"share": share})
