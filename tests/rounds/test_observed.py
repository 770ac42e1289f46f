"""The server corrects its time model from reported seconds, and a memory limit limits the model."""

from pathlib import Path

import pytest
import torch

from prunefl import data, devices
from prunefl.core.masks import density
from prunefl.data import Federation
from prunefl.engines.simulator import Simulator
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.server import ServerState, Setup, start
from prunefl.runs import checkpoint
from prunefl.runs.api import prepare, train
from tasks import small_clients, small_config, small_data, small_model

TEST = small_data(100, seed=99)


def a_setup(**sections: dict[str, object]) -> tuple[Setup, Federation]:
    clients = data.wrap_all(small_clients())
    federation = Federation(clients, data.wrap(TEST), 4, (1, 8, 8), "own")
    return prepare(small_model(), federation, small_config(**sections)), federation


def after_rounds(setup: Setup, federation: Federation, folder: Path, rounds: int) -> ServerState:
    with Simulator(setup, federation.clients, folder) as engine:
        for k, (state, _) in enumerate(run_rounds(setup, start(setup), engine)):
            if k == rounds:
                return state
    raise AssertionError("too few rounds")


def test_reported_seconds_correct_the_time_model_and_survive_a_checkpoint(tmp_path: Path) -> None:
    from prunefl.rounds.observed import time_model

    path = device_file(tmp_path, 60_000, 10_000, 10.0)
    path.write_text(path.read_text().replace("constant = 0.1", "constant = 50.0").replace("= 0.2", "= 60.0"))
    setup, federation = a_setup(time={"refit": True, "device": str(path)})
    state = after_rounds(setup, federation, tmp_path / "clients", 5)
    assert list(state.evidence) == [0]  # one kind of device
    assert state.evidence[0].rounds > 4
    live = {name: int(mask.sum()) for name, mask in state.masks.items()}
    assert setup.time_model.seconds(live) > 150  # three steps, says the wrong profile
    assert 0 < time_model(setup, state).seconds(live) < 5  # this little network trains in no time anywhere
    checkpoint.save(tmp_path / "kept", state, {"record_bytes": 0})
    loaded = checkpoint.load_latest(tmp_path / "kept", 0)
    assert loaded is not None
    assert loaded[0].evidence == state.evidence
    assert time_model(setup, loaded[0]) == time_model(setup, state)


def test_without_refit_the_profile_stands(tmp_path: Path) -> None:
    from prunefl.rounds.observed import time_model

    setup, federation = a_setup()
    state = after_rounds(setup, federation, tmp_path / "clients", 3)
    assert state.evidence == {}
    assert time_model(setup, state) is setup.time_model


def device_file(folder: Path, dense: int, sparse: int, per_weight: float) -> Path:
    path = folder / "small.toml"
    path.write_text(
        "[[model]]\nname = 'small'\nbatch = 20\nconstant = 0.1\nweights = [72, 4096, 128]\n"
        "positions = [64, 1, 1]\nper_weight = [1e-5, 1e-5, 1e-5]\ndense_step = 0.2\n"
        f"dense_bytes = {dense}\nsparse_bytes = {sparse}\nbytes_per_weight = {per_weight}\n"
    )
    return path


def test_a_memory_limit_is_a_density_limit(tmp_path: Path) -> None:
    path = str(device_file(tmp_path, 60_000, 10_000, 10.0))
    config = small_config(time={"device": path, "memory_limit": 18_592})
    run = train(small_model(), small_clients(), test=TEST, config=config)
    assert density(run.masks) == pytest.approx(0.2, abs=1e-3)
    assert all(r["density"] <= 0.2 for r in run.records if r["kind"] == "round")
    roomy, _ = a_setup(time={"device": path, "memory_limit": 70_000})
    assert roomy.config.pruning.density_limit == 0


def test_a_memory_limit_needs_a_measured_device() -> None:
    with pytest.raises(
        ValueError, match=r"time.memory_limit=1000, but raspberry-pi-4 has no memory measured"
    ):
        a_setup(time={"memory_limit": 1000})


def test_positions_of_the_little_model_are_what_the_file_says() -> None:
    shape = devices.shape_of(small_model(), (1, 8, 8), ["0.weight", "4.weight", "6.weight"])
    assert list(shape.positions.values()) == [64, 1, 1]
    assert torch.equal(torch.tensor(list(shape.weights.values())), torch.tensor([72, 4096, 128]))
