"""What a client measured for a run stays with its folder: a restart on an empty cache changes no bit."""

from dataclasses import replace

import pytest

from prunefl import config as settings
from prunefl import data, models
from prunefl.engines.flower.codec import decode_reply, encode_order
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.handshake import collect_facts, with_task
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import ANYTHING, WorkerOptions
from prunefl.engines.flower.worker import Worker
from prunefl.local.measured import read_measured
from prunefl.local.torch_backend.network import network_of
from prunefl.rounds.server import begin_round, start
from prunefl.rounds.setup import prepare

CONFIG = {
    "run": {"method": "erk", "rounds": 9},
    "pruning": {"density": 0.8},
    "data": {"name": "digits", "partition": "iid", "clients": 40},
    "model": {"name": "lenet300100"},
    "training": {"local_steps": 3, "batch_size": 10},
}
SPARSE, DENSE = 1.0, 0.0
"""Break-even densities of devices on which pruned layers compute sparsely, or densely where they are rather full."""


@pytest.fixture(scope="module")
def task():
    """Return what greets a client of a run by this name, and its first order."""
    config = settings.from_tables(CONFIG)
    federation = data.load_configured(config)
    model = models.build_configured(config, federation.classes, federation.input_shape)
    network = network_of(model, federation.input_shape, federation.classes)
    setup = prepare(network, [len(share) for share in federation.clients], config)
    _, orders = begin_round(setup, start(setup))
    facts, text = collect_facts(network.template), settings.dump(with_task(config, federation))

    def hello(run):
        return seal(Envelope("hello", {"run": run, "config": text, "facts": facts}))

    return hello, orders[1]


@pytest.fixture
def device(monkeypatch, tmp_path):
    """Return what makes this a device on which nothing is measured yet, and such layers break even there."""

    def become(name, density):
        monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path / "caches" / name))
        monkeypatch.setattr("prunefl.local.torch_backend.breakeven._measured", lambda spec, size: density)

    return become


def worker(folder):
    return Worker(WorkerOptions(folder, 1, share=Share(1), allowed=(ANYTHING,)), lambda words: None)


def update(worker, order, run="r"):
    """Return the packed update with which an order is answered."""
    return decode_reply(unseal(worker.answer(seal(encode_order(order, run)))), 1).model


def test_a_client_that_is_started_again_goes_by_what_it_measured_before(task, device, tmp_path):
    hello, order = task
    device("first", SPARSE)
    first = worker(tmp_path / "state")
    first.answer(hello("r"))
    expected = [update(first, replace(order, round=number)) for number in (1, 2)]
    device("second", DENSE)
    again = worker(tmp_path / "state")
    assert [update(again, replace(order, round=number)) for number in (1, 2)] == expected
    fresh = worker(tmp_path / "fresh")
    fresh.answer(hello("r"))
    assert update(fresh, order) != expected[0]


def test_a_clients_folder_names_the_run_that_it_measured_for(task, device, tmp_path):
    hello, order = task
    device("first", SPARSE)
    first = worker(tmp_path / "state")
    first.answer(hello("r"))
    assert read_measured(tmp_path / "state", "r") == {}
    update(first, order)
    assert set(read_measured(tmp_path / "state", "r").values()) == {SPARSE}
    assert read_measured(tmp_path / "state", "another") == {}


def test_another_run_is_measured_for_anew(task, device, tmp_path):
    hello, order = task
    device("first", SPARSE)
    first = worker(tmp_path / "state")
    first.answer(hello("r"))
    before = update(first, order)
    device("second", DENSE)
    again = worker(tmp_path / "state")
    again.answer(hello("another"))
    assert update(again, order, "another") != before
    assert set(read_measured(tmp_path / "state", "another").values()) == {DENSE}
