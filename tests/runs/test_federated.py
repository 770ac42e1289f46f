"""The server's half of a real run: the simulator's bits for every kind of method, whatever carries the messages."""

import json
from types import SimpleNamespace

import pytest

from prunefl import config as settings
from prunefl.engines.flower import mailbox
from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.envelope import unseal
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import ANYTHING, WorkerOptions
from prunefl.engines.flower.worker import Worker
from prunefl.runs.api import run_config
from prunefl.runs.federation import name_run, run
from prunefl.runs.model_file import load_model

CONFIG = {
    "run": {"rounds": 6, "eval_every": 2, "workers": 1},
    "data": {"name": "digits", "partition": "iid", "clients": 3},
    "model": {"name": "lenet300100"},
    "training": {"local_steps": 2, "batch_size": 20, "learning_rate": 0.1},
    "pruning": {"interval": 2},
    "initial": {"samples": 60, "interval": 2, "max_passes": 6},
}
VARIANTS = {
    "prunefl": {},
    "prunefl, all that a client remembers": {
        "importance": {"window": "all"},
        "wire": {"precision": "int8", "importance": "log8"},
        "training": {"participants": 2},
        "pruning": {"interval": 4},
    },
    "feddst": {"run": {"method": "feddst"}, "pruning": {"density": 0.3}},
    "online": {"run": {"method": "online"}},
    "snip": {"run": {"method": "snip"}, "pruning": {"density": 0.3}},
    "prunetrain": {"run": {"method": "prunetrain"}},
    "dpf": {"run": {"method": "dpf"}, "pruning": {"density": 0.3}},
}


class LocalGrid:
    """Nodes 1, 2, ... of Flower's Grid: workers in this process, at which every message is answered at once.

    `restarts`: each message finds a new process of its client, with what is in the client's folder and no more.
    """

    def __init__(self, folder, clients, restarts=False):
        self._folder, self._clients, self._restarts = folder, clients, restarts
        self._workers, self._answers = {}, {}
        self.kinds = []

    def get_node_ids(self):
        return range(1, 1 + self._clients)

    def push_messages(self, messages):
        names = []
        for (records, node, *_), _ in messages:
            names.append(f"m{len(self.kinds)}")
            data = self._worker(node).answer(from_records(records, 1 << 30))
            self.kinds.append(unseal(data).kind)
            self._answers[names[-1]] = SimpleNamespace(
                metadata=SimpleNamespace(reply_to_message_id=names[-1]),
                has_error=lambda: False,
                content=to_records(data),
            )
        return names

    def _worker(self, node):
        if self._restarts or node not in self._workers:
            folder, share = self._folder / f"client-{node - 1}", Share(node - 1)
            options = WorkerOptions(folder, node - 1, share=share, allowed=(ANYTHING,))
            self._workers[node] = Worker(options, lambda words: None)
        return self._workers[node]

    def pull_messages(self, names):
        return [self._answers.pop(name) for name in names if name in self._answers]


@pytest.fixture
def federated(tmp_path, monkeypatch):
    """Return what runs a config over a grid of workers, and gives back that grid; the run is in `run`."""
    # Flower makes messages only inside of a running app
    monkeypatch.setattr(mailbox, "Message", lambda *arguments, **options: (arguments, options))

    def go(config, restarts=False):
        grid = LocalGrid(tmp_path / "clients", config.data.clients, restarts)
        (tmp_path / "run").mkdir()
        run(grid, config, tmp_path / "run", {}, resume=False)
        return grid

    return go


def config_of(variant):
    tables = {name: dict(table) for name, table in CONFIG.items()}
    for name, table in VARIANTS[variant].items():
        tables.setdefault(name, {}).update(table)
    return settings.from_tables(tables)


def model_of(folder):
    state, _ = load_model(folder / "model.safetensors")
    return state.masks.digest, {name: value.tobytes() for name, value in state.values.items()}


def numbers(folder):
    """Return what the rounds came to, without what a clock on the wall says."""
    names = (
        "kind",
        "round",
        "loss",
        "density",
        "accuracy",
        "bytes_up",
        "bytes_down",
        "reconfigured",
        "clients",
    )
    lines = (folder / "records.jsonl").read_text().splitlines()
    return [{name: record.get(name) for name in names} for record in map(json.loads, lines)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_simulator_and_flower_end_with_the_same_bits(variant, federated, tmp_path):
    config = config_of(variant)
    run_config(config, tmp_path / "simulated")
    grid = federated(config)
    assert model_of(tmp_path / "run") == model_of(tmp_path / "simulated")
    assert numbers(tmp_path / "run") == numbers(tmp_path / "simulated")
    assert set(grid.kinds) == {"joined", "reply", "end"}


@pytest.mark.parametrize("variant", ["prunefl, all that a client remembers", "online"])
def test_clients_that_are_started_anew_for_every_message_change_no_bit(variant, federated, tmp_path):
    config = config_of(variant)
    run_config(config, tmp_path / "simulated")
    federated(config, restarts=True)
    assert model_of(tmp_path / "run") == model_of(tmp_path / "simulated")


def test_a_resumed_run_has_its_name_and_another_one_has_another(tmp_path):
    first = name_run(tmp_path, resume=False)
    assert name_run(tmp_path, resume=True) == first
    assert name_run(tmp_path, resume=False) != first
    assert name_run(tmp_path / "new", resume=True) != first
