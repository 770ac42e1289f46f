"""Differential privacy among real processes: noise of the promised size that nobody can draw again, with and without
secure sums; and secure sums that go on after the server was killed."""

import json

import numpy as np
import pytest
from realm import realm
from test_federation import simulated
from test_secure import CONFIG as SECURE

from prunefl.wire.model_file import load_model

NOISE, CLIP = 0.02, 20.0
"""The clip is more than any change here."""

CONFIG = f"""
[run]
rounds = 1
workers = 1
method = "conventional"
[data]
name = "digits"
partition = "iid"
clients = 4
[model]
name = "lenet300100"
[training]
local_steps = 2
batch_size = 20
learning_rate = 0.1
weighting = "uniform"
[server]
max_change = 0
max_opposition = 0
max_statistic = 0
deadline = 60
[privacy]
secure = {{secure}}
noise = {NOISE}
clip = {CLIP}
delta = 0.01
"""


def values_of(folder):
    state, _ = load_model(folder / "model.safetensors")
    return np.concatenate([state.values[name].ravel() for name in sorted(state.values)])


@pytest.mark.parametrize("secure", [False, True])
def test_real_processes_add_the_noise_that_is_promised(secure: bool, tmp_path, monkeypatch):
    with realm(tmp_path / "r", CONFIG.format(secure=str(secure).lower()), clients=4) as town:
        seeded = simulated(town.config, tmp_path / "seeded", monkeypatch)
        quiet = tmp_path / "quiet.toml"
        quiet.write_text(town.config.read_text().replace(f"noise = {NOISE}", "noise = 1e-6"))
        without = simulated(quiet, tmp_path / "without", monkeypatch)
        town.start_server()
        clients = [town.start_client(client) for client in range(4)]
        town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
        assert town.processes["server"].returncode == 0, town.said("server")
        town.wait("the clients' end", lambda: all(client.poll() == 0 for client in clients), 60)
        (record,) = town.rounds()
        spent = json.loads((town.run / "privacy.json").read_text())
    noise = values_of(town.run) - values_of(without.folder)
    # of four clients three must remain: their noise is what is promised, and all four were there
    wanted = NOISE * CLIP / 4 * (np.sqrt(4 / 3) if secure else 1.0)
    assert noise.std() == pytest.approx(wanted, rel=4 / np.sqrt(2 * noise.size))
    # it is not the simulator's, which anybody can draw again
    assert abs(np.corrcoef(noise, values_of(seeded.folder) - values_of(without.folder))[0, 1]) < 0.02
    (theirs,) = [one for one in seeded.records if one["kind"] == "round"]
    assert record["privacy"] == theirs["privacy"]
    assert "loss" not in record
    assert ("secure" in record) == secure
    assert spent["releases"] == [[4, 4, NOISE / 2, 1]]


def test_a_secure_run_whose_server_is_killed_ends_with_the_simulators_bits(tmp_path, monkeypatch):
    text = SECURE.format(rounds=6).replace("[run]", "[run]\ncheckpoint_every = 2")
    with realm(tmp_path / "r", text, clients=4) as town:
        expected = simulated(town.config, tmp_path / "simulated", monkeypatch)
        town.start_server()
        clients = [town.start_client(client) for client in range(4)]
        # a round is begun after the last checkpoint, and is done again
        town.wait("some rounds", lambda: town.round() >= 3, 240)
        town.kill("server")
        town.start_server("--resume")
        town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
        assert town.processes["server"].returncode == 0, town.said("server")
        town.wait("the clients' end", lambda: all(client.poll() == 0 for client in clients), 60)
        assert [record["round"] for record in town.rounds()] == list(range(1, 7))
    found, _ = load_model(town.run / "model.safetensors")
    wanted, _ = load_model(expected.folder / "model.safetensors")
    assert found.masks == wanted.masks
    assert {n: v.tobytes() for n, v in found.values.items()} == {
        n: v.tobytes() for n, v in wanted.values.items()
    }
