"""A private run stopped, killed and gone on with: its budget is that of what was released, no more and no less."""

import dataclasses
import json

import pytest

from prunefl.core.ledger import Ledger, Release, multiplier_of
from prunefl.rounds.accounting import epsilon_of
from prunefl.rounds.private import Spent
from prunefl.runs import checkpoint
from prunefl.runs.api import train
from prunefl.runs.resume import _with_all_spent
from prunefl.runs.spent import read_ledger, write_spent
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

TEST = small_data(100, seed=99)


def private_config(**privacy):
    return small_config(
        privacy={"noise": 3.0, **privacy},
        training={"weighting": "uniform", "participants": 3},
        server={"max_change": 0, "max_opposition": 0, "max_statistic": 0},
    )


def go(config, out, **options):
    return train(small_model(), small_clients(), test=TEST, config=config, out=out, **options)


def spent_by(run):
    return [record["privacy"]["epsilon"] for record in run.records if record["kind"] == "round"]


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("quantile", [0.0, 0.5])
def test_a_resumed_run_spends_nothing_twice_and_forgets_nothing(tmp_path, every, quantile):
    config = private_config(quantile=quantile)
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, checkpoint_every=every))
    whole = go(config, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(record):
        if record["round"] == 5:
            raise Killed

    with pytest.raises(Killed):
        go(config, tmp_path / "x", on_record=kill)
    resumed = go(config, tmp_path / "x", resume=True)
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())
    assert spent_by(whole) == spent_by(resumed)
    told = ["change", "within"] if quantile else ["change"]
    # the rounds 3 and 6 come before a reconfiguration and report importance
    releases = [
        Release(4, 3, multiplier_of(3.0, told), 6),
        Release(4, 3, multiplier_of(3.0, [*told, "importance"]), 2),
    ]
    assert spent_by(whole)[-1] == pytest.approx(epsilon_of(Ledger().plus(releases), 1e-5))
    last = max(checkpoint.kept(tmp_path / "x" / "checkpoints").values())
    assert checkpoint.load_one(last)[0].spent.ledger == Ledger().plus(releases)
    assert all("loss" not in record for record in whole.records)


def test_an_extended_run_goes_on_with_what_it_has_spent(tmp_path):
    config = private_config()
    short = go(config, tmp_path / "x")
    longer = short.extend(4)
    assert spent_by(longer)[:8] == spent_by(short)
    longer_config = dataclasses.replace(config, run=dataclasses.replace(config.run, rounds=12))
    assert spent_by(longer) == spent_by(go(longer_config, tmp_path / "whole"))


def test_a_budget_is_kept_when_a_run_is_extended(tmp_path):
    spent = spent_by(go(private_config(), tmp_path / "free"))[-1]
    run = go(private_config(epsilon=spent * 1.01), tmp_path / "x")
    assert run.finished
    with pytest.raises(PruneFLError, match=r"privacy.epsilon=.* 12 rounds .* come to .*; give fewer rounds"):
        run.extend(4)


def test_a_real_server_remembers_rounds_whose_checkpoints_are_gone(tmp_path):
    setup = small_setup(small_federation(), private_config())
    real = dataclasses.replace(setup, secret=True)
    from prunefl.rounds.server import start

    state, ledger = start(setup), Ledger((Release(4, 3, 1.5, 7),))
    write_spent(tmp_path, Spent(ledger, 2.0))
    assert _with_all_spent(real, state, tmp_path).spent.ledger == ledger
    # the clip is part of the way to the model, not of what was told
    assert _with_all_spent(real, state, tmp_path).spent.clip == 1.0
    # a simulation draws the same noise again: what it does again is told once
    assert _with_all_spent(setup, state, tmp_path).spent.ledger == Ledger()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        '{"releases": [[4, 5, 1.0, 1]], "clip": 1}',
        '{"releases": [[4, 3, -1.0, 1]], "clip": 1}',
        '{"releases": 3, "clip": 1}',
        '{"releases": [[4, 3]], "clip": 1}',
    ],
)
def test_a_damaged_ledger_is_refused_and_not_taken_for_an_empty_one(tmp_path, content):
    (tmp_path / "privacy.json").write_text(content)
    with pytest.raises(PruneFLError, match=r"privacy.json: not a privacy ledger"):
        read_ledger(tmp_path)


def test_the_ledger_survives_being_written(tmp_path):
    ledger = Ledger().plus([Release(4, 3, 1 / 3, 7), Release(4, 4, 0.1, 2), Release(4, 3, 1 / 3, 1)])
    write_spent(tmp_path, Spent(ledger, 2.0))
    assert read_ledger(tmp_path) == ledger
    assert json.loads((tmp_path / "privacy.json").read_text())["clip"] == 2.0
