"""Secure sums among real processes with keys: the simulator's bits, and a client that dies in the middle."""

import pytest
from realm import realm
from test_federation import simulated

from prunefl.wire.model_file import load_model

CONFIG = """
[run]
rounds = {rounds}
eval_every = 3
workers = 1
method = "prunefl"
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
[pruning]
interval = 2
[evaluation]
share = 0.2
[server]
max_change = 0
max_opposition = 0
max_statistic = 0
quorum = 0.6
deadline = 60
[privacy]
secure = true
"""


@pytest.fixture
def town(tmp_path):
    with realm(tmp_path / "r", CONFIG.format(rounds=6), clients=4) as found:
        yield found


def test_secure_sums_of_real_processes_have_the_simulators_bits(town, tmp_path, monkeypatch):
    expected = simulated(town.config, tmp_path / "simulated", monkeypatch)
    town.start_server()
    clients = [town.start_client(client) for client in range(4)]
    town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
    assert town.processes["server"].returncode == 0, town.said("server")
    town.wait("the clients' end", lambda: all(client.poll() == 0 for client in clients), 60)
    assert "bytes under masks" in town.said("client-0")
    assert [record["secure"]["exchanges"] for record in town.rounds()] == [3, 2, 2, 2, 2, 2]
    found, _ = load_model(town.run / "model.safetensors")
    wanted, _ = load_model(expected.folder / "model.safetensors")
    assert found.masks == wanted.masks
    assert {n: v.tobytes() for n, v in found.values.items()} == {
        n: v.tobytes() for n, v in wanted.values.items()
    }
    ours = [record["evaluation"]["accuracy"] for record in town.rounds() if "evaluation" in record]
    theirs = [r["evaluation"]["accuracy"] for r in expected.records if "evaluation" in r]
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_a_client_that_dies_in_the_middle_costs_its_update_and_comes_back(tmp_path):
    with realm(tmp_path / "r", CONFIG.format(rounds=1000), clients=4) as town:
        town.start_server()
        for client in range(4):
            town.start_client(client)
        town.wait("some rounds", lambda: town.round() >= 3)
        town.kill("client-2")
        before = town.round()
        town.wait("rounds without it", lambda: town.rounds()[-1]["secure"]["clients"] == 3, 200)
        assert town.round() > before
        town.start_client(2, name="client-2")
        town.wait("rounds with it again", lambda: town.rounds()[-1]["secure"]["clients"] == 4, 200)
        rounds = town.rounds()
    assert [record["round"] for record in rounds] == list(range(1, len(rounds) + 1))
    assert {record["secure"]["clients"] for record in rounds} == {3, 4}
