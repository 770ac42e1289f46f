"""What was measured where a run began decides its bits, wherever it goes on or is repeated."""

import json

import pytest

from prunefl.local.measured import FILE, read_measured
from prunefl.runs import checkpoint
from prunefl.runs.api import run_config, train
from tasks import same_bits, small_clients, small_config, small_data, small_model

ERK = {"run": {"method": "erk", "backend": "torch"}, "pruning": {"density": 0.8}}
SPARSE, DENSE = 1.0, 0.0
"""Break-even densities of machines on which all pruned layers compute sparsely, or all such full ones densely."""


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return what makes this a machine on which nothing is measured yet; its cache is returned."""

    def move(name, density):
        cache = tmp_path / "caches" / name
        monkeypatch.setenv("PRUNEFL_CACHE", str(cache))
        monkeypatch.setattr("prunefl.local.torch_backend.breakeven._measured", lambda spec, size: density)
        return cache

    return move


def go(out=None, **options):
    return train(
        small_model(),
        small_clients(),
        test=small_data(100, seed=99),
        config=small_config(**ERK),
        out=out,
        **options,
    )


def stopped(out, round):
    assert not go(out, on_record=lambda record: record.get("round") == round).finished


def test_a_run_that_goes_on_at_another_machine_ends_with_the_bits_of_the_one_it_began_at(machine, tmp_path):
    machine("first", SPARSE)
    whole = go()
    machine("second", DENSE)
    elsewhere = go()
    assert not same_bits(whole.model.state_dict(), elsewhere.model.state_dict())
    machine("first", SPARSE)
    stopped(tmp_path / "run", 4)
    second = machine("third", DENSE)
    resumed = go(tmp_path / "run", resume=True)
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())
    assert [record.get("loss") for record in resumed.records] == [r.get("loss") for r in whole.records]
    assert not (second / "break-even").exists()


def test_the_checkpoint_and_the_folder_hold_what_was_measured(machine, tmp_path):
    machine("first", SPARSE)
    stopped(tmp_path / "run", 2)
    loaded = checkpoint.load_latest(tmp_path / "run" / "checkpoints", 1 << 40)
    assert set(loaded.extra["measured"].values()) == {SPARSE}
    assert read_measured(tmp_path / "run") == loaded.extra["measured"]
    machine("second", DENSE)
    go(tmp_path / "run", resume=True)
    assert (
        checkpoint.load_latest(tmp_path / "run" / "checkpoints", 1 << 40).extra["measured"]
        == (loaded.extra["measured"])
    )


def test_a_lost_file_in_the_folder_does_not_change_a_resumed_run(machine, tmp_path):
    machine("first", SPARSE)
    whole = go()
    stopped(tmp_path / "run", 4)
    (tmp_path / "run" / FILE).unlink()
    machine("second", DENSE)
    resumed = go(tmp_path / "run", resume=True)
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())
    assert set(read_measured(tmp_path / "run").values()) == {SPARSE}


def test_a_run_is_repeated_elsewhere_by_what_its_folder_says(machine, tmp_path):
    config = small_config(
        **ERK,
        data={"name": "digits", "partition": "iid", "clients": 4},
        model={"name": "lenet300100"},
    )
    machine("first", SPARSE)
    first = run_config(config, tmp_path / "run")
    cache = machine("second", DENSE)
    repeated = run_config(config, None, measured=read_measured(tmp_path / "run"))
    assert not (cache / "break-even").exists()
    assert same_bits(first.model.state_dict(), repeated.model.state_dict())
    assert not same_bits(first.model.state_dict(), run_config(config, None).model.state_dict())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": "", "densities": {"layer": "x"}}', "\0"])
def test_a_file_that_cannot_be_read_says_nothing(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_measured(tmp_path) == {}


def test_what_another_run_measured_does_not_count(tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"run": "r", "densities": {"layer": 0.5}}))
    assert read_measured(tmp_path, "r") == {"layer": 0.5}
    assert read_measured(tmp_path, "another") == {}
