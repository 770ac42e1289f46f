"""Optimisers in whole runs: what a client keeps, what the server does, what the clock charges."""

import numpy as np
import pytest

from prunefl.runs.api import train
from prunefl.system.errors import PruneFLError
from tasks import same_bits, small_clients, small_config, small_data, small_model

TEST = small_data(100, seed=99)
MOMENTUM = {"optimiser": {"momentum": 0.9}, "training": {"learning_rate": 0.02}}


def go(clients=None, out=None, **sections):
    config = small_config(**sections)
    return train(small_model(), clients or small_clients(), test=TEST, config=config, out=out)


@pytest.mark.parametrize("method", ["prunefl", "conventional", "feddst", "online", "set", "prunetrain"])
def test_every_kind_of_method_trains_with_momentum_and_a_server_optimiser(method: str) -> None:
    density = {"density": 0.4} if method in ("feddst", "set") else {}
    run = go(
        run={"method": method},
        pruning={"interval": 3, **density},
        server_optimiser={"name": "fedavgm", "momentum": 0.5},
        **MOMENTUM,
    )
    assert run.finished
    assert all(np.isfinite(value).all() for value in run.state.values.values())


def test_a_client_begins_anew_in_every_round_unless_it_keeps_its_moments() -> None:
    one = {"run": {"method": "conventional", "rounds": 4}, "data": {"clients": 1}}
    fresh, kept = (
        go(small_clients(1), **one, training=MOMENTUM["training"], optimiser={"momentum": 0.9, "keep": keep})
        for keep in (False, True)
    )
    assert not same_bits(fresh.state.values, kept.state.values)
    one["run"]["rounds"] = 1
    fresh, kept = (
        go(small_clients(1), **one, training=MOMENTUM["training"], optimiser={"momentum": 0.9, "keep": keep})
        for keep in (False, True)
    )
    assert same_bits(fresh.state.values, kept.state.values)


def test_epochs_are_charged_by_each_clients_samples() -> None:
    """60, 67, 74 and 81 samples in batches of 20 are 3, 4, 4 and 4 steps (81 = 20 + 20 + 20 + 21)."""
    plain = go(run={"method": "conventional", "rounds": 1}, training={"local_steps": 1})
    epochs = go(run={"method": "conventional", "rounds": 1}, training={"local_epochs": 2, "local_steps": 5})
    assert epochs.records[1]["flops"] == pytest.approx(plain.records[1]["flops"] * 2 * (3 + 4 + 4 + 4) / 4)
    # the round waits for those with most samples
    assert epochs.records[1]["seconds"]["compute"] == pytest.approx(
        8 * plain.records[1]["seconds"]["compute"]
    )


def test_a_method_that_counts_on_plain_steps_refuses_others() -> None:
    with pytest.raises(PruneFLError, match=r"^run.method='dpf' takes plain steps of SGD, must be without"):
        go(run={"method": "dpf"}, pruning={"density": 0.5}, optimiser={"momentum": 0.9})


def test_a_cosine_over_all_rounds_cannot_be_extended(tmp_path) -> None:
    sections = {"training": {"schedule": "cosine"}, "run": {"rounds": 4}}
    go(out=tmp_path, **sections)
    sections["run"]["rounds"] = 6
    with pytest.raises(PruneFLError, match=r"training.schedule='cosine' ends with the last round"):
        train(
            small_model(),
            small_clients(),
            test=TEST,
            config=small_config(**sections),
            out=tmp_path,
            resume=True,
        )
