"""The server's half of a real run: the simulator's bits for every kind of method, whatever carries the messages."""

import json
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from prunefl import config as settings
from prunefl import data
from prunefl.engines.flower import mailbox
from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.handshake import collect_facts, with_task
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.personal import Personal
from prunefl.engines.flower.server_app import RunOptions
from prunefl.engines.flower.session import ANYTHING, WorkerOptions, load_network
from prunefl.engines.flower.worker import Worker
from prunefl.local import make_backend
from prunefl.local.held_out import split_samples
from prunefl.runs.api import run_config
from prunefl.runs.federation import name_run, run
from prunefl.wire.model_file import load_model
from tasks import same_bits

CONFIG = {
    "run": {"rounds": 6, "eval_every": 2, "workers": 1},
    "data": {"name": "digits", "partition": "iid", "clients": 3},
    "model": {"name": "lenet300100"},
    "training": {"local_steps": 2, "batch_size": 20, "learning_rate": 0.1},
    "pruning": {"interval": 2},
    "initial": {"samples": 60, "interval": 2, "max_passes": 6},
}
VARIANTS = {
    "prunefl": {"run": {"backend": "torch"}},
    "prunefl, all that a client remembers": {
        "importance": {"window": "all"},
        "wire": {"precision": "int8", "importance": "log8"},
        "training": {"participants": 2},
        "pruning": {"interval": 4},
    },
    "prunefl, evaluated at the clients": {
        "evaluation": {"share": 0.2, "personal_steps": 3},
        "wire": {"precision": "int8"},
        "training": {"participants": 2},
    },
    "prunefl, by plan": {"run": {"backend": "native"}, "evaluation": {"share": 0.2, "personal_steps": 3}},
    "conventional, by plan, with dropout": {
        "run": {"backend": "native", "method": "conventional", "rounds": 3},
        "model": {"name": "native_models:convolutional"},
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

    def __init__(self, folder, clients, restarts=False, personal=None):
        self._folder, self._clients, self._restarts = folder, clients, restarts
        self._personal = personal or {}
        self._workers, self._answers = {}, {}
        self.kinds, self.words = [], []

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
            folder, personal = self._folder / f"client-{node - 1}", self._personal.get(node - 1)
            share = Share(node - 1)
            options = WorkerOptions(folder, node - 1, share=share, allowed=(ANYTHING,), personal=personal)
            self._workers[node] = Worker(options, self.words.append)
        return self._workers[node]

    def pull_messages(self, names):
        return [self._answers.pop(name) for name in names if name in self._answers]


@pytest.fixture
def federated(tmp_path, monkeypatch):
    """Return what runs a config over a grid of workers, and gives back that grid; the run is in `run`."""
    # Flower makes messages only inside of a running app
    monkeypatch.setattr(mailbox, "Message", lambda *arguments, **options: (arguments, options))

    def go(config, restarts=False, personal=None):
        grid = LocalGrid(tmp_path / "clients", config.data.clients, restarts, personal)
        (tmp_path / "run").mkdir()
        run(grid, config, RunOptions(tmp_path / "c.toml", tmp_path / "run", {}, None, resume=False))
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
        "evaluation",
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


@pytest.mark.parametrize(
    "variant",
    [
        "prunefl, all that a client remembers",
        "prunefl, evaluated at the clients",
        "prunefl, by plan",
        "conventional, by plan, with dropout",
        "online",
    ],
)
def test_clients_that_are_started_anew_for_every_message_change_no_bit(variant, federated, tmp_path):
    config = config_of(variant)
    run_config(config, tmp_path / "simulated")
    federated(config, restarts=True)
    assert model_of(tmp_path / "run") == model_of(tmp_path / "simulated")
    assert numbers(tmp_path / "run") == numbers(tmp_path / "simulated")


def test_a_client_writes_the_personal_model_that_it_was_started_for(federated, tmp_path):
    config = config_of("prunefl, evaluated at the clients")
    config = replace(config, evaluation=replace(config.evaluation, personal_steps=0))
    run_config(
        replace(config, evaluation=replace(config.evaluation, personal_steps=5)), tmp_path / "simulated"
    )
    grid = federated(config, personal={1: Personal(5, tmp_path / "mine" / "model.safetensors")})
    assert model_of(tmp_path / "run") == model_of(tmp_path / "simulated")
    last, theirs = (
        [r["evaluation"] for r in numbers(tmp_path / name) if r["evaluation"]][-1]
        for name in ("run", "simulated")
    )
    assert last["personal"] == {"1": theirs["personal"]["1"]}
    assert theirs["personal"].keys() == {"0", "1", "2"}
    mine, about = load_model(tmp_path / "mine" / "model.safetensors")
    final, _ = load_model(tmp_path / "run" / "model.safetensors")
    assert mine.masks == final.masks
    assert not same_bits(mine.values, final.values)
    right, samples = last["personal"]["1"]
    federation = data.load_configured(config)
    network = load_network(with_task(config, federation))
    held_out = split_samples(federation.clients[1], 1, config).held_out
    backend = make_backend(network, config, {})
    backend.load(mine)
    assert backend.evaluate(held_out.batch(np.arange(samples)))[0] == right
    assert about.classes == 10
    assert any(f"personal model: accuracy {right / samples:.4f}" in line for line in grid.words)
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert [node["personal"] for node in status["nodes"]] == [None, right / samples, None]
    before = [correct / of for correct, of in last["by_client"].values()]
    assert [node["accuracy"] for node in status["nodes"]] == before


def test_a_personal_model_of_a_run_that_does_not_send_its_final_one_is_refused(tmp_path):
    config = config_of("snip")
    text = settings.dump(with_task(config, data.load_configured(config)))
    options = WorkerOptions(
        tmp_path, 0, share=Share(0), allowed=(ANYTHING,), personal=Personal(5, tmp_path / "model")
    )
    facts = collect_facts(load_network(settings.from_tables(tomllib.loads(text))).template)
    hello = seal(Envelope("hello", {"run": "a", "config": text, "facts": facts}))
    answer = unseal(Worker(options, lambda words: None).answer(hello))
    assert "--personal-steps 5: the server's config has evaluation.share=0" in answer.values["what"]


def test_a_resumed_run_has_its_name_and_another_one_has_another(tmp_path):
    first = name_run(tmp_path, resume=False)
    assert name_run(tmp_path, resume=True) == first
    assert name_run(tmp_path, resume=False) != first
    assert name_run(tmp_path / "new", resume=True) != first
