"""SparsyFed and FedDIP: both halves of each, against sums by hand and dense torch; and what all new rivals cost."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from method_cases import NAMES, SECONDS, look, make, received, weights_of
from pretend_client import SLOPES, Pretend, tiny

from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import Method, known
from prunefl.methods.feddip import Regularised, compete, strength
from prunefl.methods.fedmef import Extrude
from prunefl.methods.fedrts import Vote
from prunefl.methods.fedtiny import Progress
from prunefl.methods.sparsyfed import POWER, powered
from prunefl.report.runs import read_run
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model

RIVALS = ("fedrts", "fedmef", "fedtiny", "sparsyfed", "feddip")


def test_sparsyfeds_step_is_autograds_on_v() -> None:
    """w = v·|v|^(β−1), loss Σ s·w: dL/dv by autograd, one step, back to w."""
    start = tiny([0.5, -1.5, 2.0], [0, 1, 4])
    slope = torch.tensor([0.1, -5.0, 0.3])
    w = torch.tensor(start.values["w"])
    v = (w.sign() * w.abs() ** (1 / POWER)).requires_grad_()
    (slope * v.sign() * v.abs() ** POWER).sum().backward()
    assert v.grad is not None
    stepped = (v - 0.1 * v.grad).detach()
    expected = stepped.sign() * stepped.abs() ** POWER
    after = tiny((w - 0.1 * slope).tolist(), [0, 1, 4])
    np.testing.assert_allclose(powered(start, after).values["w"], expected.numpy(), rtol=1e-5)


def test_sparsyfed_sends_its_largest_and_keeps_what_any_client_keeps() -> None:
    start = tiny([1.0, -2.0, 3.0, 0.0], [0, 1, 4, 5])
    method = make("run.method=sparsyfed", "pruning.density=0.34")
    update = method.train(method.work(1, None, SECONDS), Pretend(start, {"w": np.zeros((2, 3))}))  # type: ignore[arg-type]
    assert np.flatnonzero(update.state.masks["w"]).tolist() == [1, 4]
    np.testing.assert_allclose(update.state.values["w"], [-2.0, 3.0], rtol=1e-6)
    updates = [received(update.state, 0, 0.75), received(tiny([4.0, 7.0], [0, 4]), 1, 0.25)]
    mean = method.combine(method.work(1, None, SECONDS), start, updates, None).state  # type: ignore[arg-type]
    assert np.flatnonzero(mean.masks["w"]).tolist() == [0, 1, 4]
    # the mean of v = w^(1/β): what one client of share p keeps counts p^β, not p
    both = (0.75 * 3 ** (1 / POWER) + 0.25 * 7 ** (1 / POWER)) ** POWER
    np.testing.assert_allclose(mean.values["w"], [0.25**POWER * 4, -(0.75**POWER) * 2, both], rtol=1e-6)


def test_feddips_regularisation_rises_in_twenty_steps_from_none() -> None:
    found = [strength(round, 100) for round in range(1, 101)]
    assert found[:5] == [0.0] * 5
    assert found[5] == 5e-4
    assert found[-1] == pytest.approx(5e-4 + 5e-4 * 18 / 19)
    assert [a < b for a, b in pairwise(found)].count(True) == 19


def test_feddip_pulls_each_layer_by_its_norm() -> None:
    start = tiny([3.0, -4.0], [0, 4])
    local = Pretend(start, {"w": np.zeros((2, 3), np.float32)}, rate=0.1)
    update = make("run.method=feddip", "pruning.density=0.3").train(Regularised(strength=10.0), local)  # type: ignore[arg-type]
    # each of two steps takes off 0.1 · 10 · w / ‖w‖: a norm of 1
    np.testing.assert_allclose(update.state.values["w"], [3.0 * 3 / 5, -4.0 * 3 / 5], rtol=1e-5)


def test_feddips_pruned_weights_compete_with_what_their_gradients_made_of_them() -> None:
    state = compete(tiny([0.05, 2.0], [0, 4]), SLOPES, rate=0.1, density=0.34)
    assert np.flatnonzero(state.masks["w"]).tolist() == [1, 4]
    assert state.values["w"].tolist() == [0.5, 2.0]


def test_feddip_comes_down_by_a_cube_and_prunes_the_mean_by_magnitude(network: Network) -> None:
    method = make("run.method=feddip", "pruning.density=0.1", "run.rounds=20", "pruning.interval=5")
    chosen, weights = method.first(network), weights_of(network)
    assert chosen.masks.density == pytest.approx(0.5, rel=0.01)
    for round in range(1, 20):
        sent = SparseState.from_dense(weights, network.full_masks)
        masks = network.full_masks if round % 5 == 0 else chosen.masks
        chosen = method.next(look(method, chosen, weights, round, masks=masks, updates=[received(sent)]))
        last = round // 5 * 5
        assert chosen.masks.density == pytest.approx(0.1 + 0.4 * (1 - last / 20) ** 3, rel=0.02)
    kept = np.concatenate([np.abs(weights[name])[mask] for name, mask in chosen.masks.items()])
    gone = np.concatenate([np.abs(weights[name])[~mask] for name, mask in chosen.masks.items()])
    assert kept.min() >= gone.max()


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_is_charged_for_what_its_clients_compute_beside_training(name: str) -> None:
    live = dict.fromkeys(NAMES, 10)
    method: Method = make(f"run.method={name}", "pruning.density=0.3", "pruning.interval=4", "run.rounds=100")
    assert known()[name].needs_density
    works = {
        "fedrts": (Vote(), Vote(share=0.2)),
        "fedmef": (Extrude(), Extrude(share=0.2)),
        "fedtiny": (Progress(), Progress(layer=NAMES[0], count=3)),
        "feddip": (Regularised(), Regularised(strength=1e-3, density=0.4)),
    }
    if name == "sparsyfed":
        (steps,) = method.cost(method.work(1, None, SECONDS), live, {})  # type: ignore[arg-type]
        assert (steps.count, steps.extra_flops) == (5, 120)
        return
    plain, more = (method.cost(work, live, {}) for work in works[name])
    assert [(s.count, s.full_gradient, s.extra_flops) for s in plain] == [(5, False, 0)]
    assert any(steps.full_gradient for steps in more)


@pytest.mark.parametrize("name", ["ssfl", "fedtiny"])
def test_a_run_with_a_stage_of_its_own_before_round_1_can_be_reported(name: str, tmp_path: Path) -> None:
    config = small_config(run={"method": name, "rounds": 4}, pruning={"density": 0.25})
    train(small_model(), small_clients(), test=small_data(80, 99), config=config, out=tmp_path)
    found = read_run(tmp_path)
    assert (len(found.rounds), found.finished, found.notes) == (4, True, ())
    assert found.initial is not None
    assert found.initial["flops"] > 0
