"""FedRTS, FedMef, FedTiny, SparsyFed and FedDIP: both halves of each, against sums by hand and dense torch."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from method_cases import NAMES, SECONDS, look, make, received, weights_of

from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import BadUpdate, Method, known
from prunefl.methods.candidates import mark_steepest, mean_marked, mean_under, trade
from prunefl.methods.feddip import Regularised, compete, strength
from prunefl.methods.fedmef import Extrude
from prunefl.methods.fedrts import BAD, GOOD, STEP, TRUST, Vote, outcomes
from prunefl.methods.fedtiny import LIVE, Progress, Rate
from prunefl.methods.sparsyfed import POWER, powered
from prunefl.report.runs import read_run
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model

RIVALS = ("fedrts", "fedmef", "fedtiny", "sparsyfed", "feddip")


def tiny(values: list[float], live: list[int]) -> SparseState:
    """Return a state of one layer of six weights, those at `live` holding these values."""
    mask = np.zeros(6, bool)
    mask[live] = True
    return SparseState({"w": np.array(values, np.float32)}, Masks({"w": mask.reshape(2, 3)}))


class Pretend:
    """A client without samples: it takes the steps it is told, and its gradient is given."""

    def __init__(self, state: SparseState, gradient: dict[str, Any], rate: float = 0.1) -> None:
        self.received = self.state = state
        self.gradients, self.rate = gradient, rate
        self.losses: list[SparseState] = []

    def batches(self) -> list[int]:
        return [0, 1]

    def steps(self, batches: list[int], sums: Any = None, penalty: Any = None) -> Any:
        for _ in batches:
            slopes = {n: self.gradients[n].reshape(-1)[m.reshape(-1)] for n, m in self.state.masks.items()}
            for name in slopes if penalty else ():
                slopes[name] = slopes[name] + penalty(self.state)[name]
            moved = {n: self.state.values[n] - np.float32(self.rate) * slope for n, slope in slopes.items()}
            self.state = SparseState({**self.state.values, **moved}, self.state.masks)
            for name in sums.arrays if sums else ():
                sums.arrays[name][...] += self.gradients[name]
        return SimpleNamespace(loss=1.0)

    def gradient(self, batches: list[int], shapes: dict[str, Any]) -> dict[str, Any]:
        return {name: self.gradients[name] for name in shapes}

    def loss(self, batches: list[int]) -> float:
        self.losses.append(self.state)
        return float(len(self.losses))

    def replace_state(self, state: SparseState) -> None:
        self.state = state


SLOPES = {"w": np.array([[0.1, -5.0, 0.0], [2.0, 0.3, -0.4]], np.float32)}


def test_a_client_marks_the_steepest_pruned_places_with_their_gradient() -> None:
    marked = mark_steepest(tiny([1.0, 2.0], [0, 4]), SLOPES, {"w": 2})
    assert np.flatnonzero(marked.masks["w"]).tolist() == [0, 1, 3, 4]
    assert marked.values["w"].tolist() == [1.0, -5.0, 2.0, 2.0]


def test_a_place_without_gradient_is_not_marked() -> None:
    assert mark_steepest(tiny([1.0, 2.0], [0, 4]), SLOPES, {"w": 9}).masks.counts == {"w": 5}


def test_the_server_averages_models_and_marks_apart() -> None:
    masks = tiny([0.0, 0.0], [0, 4]).masks
    updates = [
        received(tiny([1.0, -4.0, 2.0], [0, 1, 4]), 0, 0.75),
        received(tiny([5.0, 8.0, 6.0], [0, 3, 4]), 1, 0.25),
    ]
    assert mean_under(masks, updates).values["w"].tolist() == [2.0, 3.0]
    assert mean_marked(masks, updates)["w"].ravel().tolist() == [0, -3.0, 0, 2.0, 0, 0]


def test_a_trade_takes_the_smallest_for_the_best_and_keeps_the_count() -> None:
    growth = {"w": np.array([0, 3.0, 0, 2.0, 0, 0])}
    assert np.flatnonzero(trade(tiny([1.0, -2.0], [0, 4]), growth, {"w": 1})["w"]).tolist() == [1, 4]
    # both go, as two places are wanted; a third has nothing to come for
    assert np.flatnonzero(trade(tiny([1.0, -2.0], [0, 4]), growth, {"w": 3})["w"]).tolist() == [1, 3]
    assert trade(tiny([1.0, -2.0], [0, 4]), growth, {}) == tiny([1.0, -2.0], [0, 4]).masks


def test_fedrts_fuses_what_the_mean_and_the_clients_say_of_each_place() -> None:
    """Of two live weights one is up for exchange; client 0 marks place 1, client 1 place 3."""
    updates = [
        received(tiny([1.0, -4.0, 2.0], [0, 1, 4]), 0, 0.75),
        received(tiny([9.0, 8.0, 6.0], [0, 3, 4]), 1, 0.25),
    ]
    mean = mean_under(tiny([0.0, 0.0], [0, 4]).masks, updates)
    assert mean.values["w"].tolist() == [3.0, 3.0]
    found = outcomes(mean, updates, {"w": 1})["w"].ravel()
    # by the mean (a tie: the earlier) place 0 stays; by client 0 place 4, by client 1 place 0
    assert found[[0, 4]].tolist() == [TRUST * 1 + (1 - TRUST) * 0.25, (1 - TRUST) * 0.75]
    assert found[[1, 3]].tolist() == [0.75, 0.25]
    assert not found[[2, 5]].any()


def test_fedrts_remembers_every_round_and_draws_by_it(network: Network) -> None:
    method = make("run.method=fedrts", "pruning.density=0.3", "run.rounds=40", "pruning.interval=2")
    chosen, weights = method.first(network), weights_of(network)
    counts = chosen.masks.counts
    for round in range(1, 11):
        before = chosen
        sent = SparseState.from_dense(weights, chosen.masks)
        work = method.work(round, chosen.memory, SECONDS)
        assert isinstance(work, Vote)
        assert (work.share > 0) == work.own_masks == (round % 2 == 0)
        chosen = method.next(look(method, chosen, weights, round, updates=[received(sent)]))
        assert chosen.masks.counts == counts
        if round % 2:
            assert chosen.masks is before.masks
            continue
        for name in NAMES:
            good, bad = (chosen.memory.arrays[kind + name] for kind in (GOOD, BAD))
            # one observation a time, whatever it says
            np.testing.assert_allclose(good + bad, 2 + STEP * round / 2, rtol=1e-6)
            never = ~before.masks[name] & (before.memory.arrays[GOOD + name] == 1)
            assert (good[never] == 1).all()
    # what was always live and large is still there
    for name in NAMES:
        assert chosen.masks[name][chosen.memory.arrays[GOOD + name] == 1 + 5 * STEP].mean() > 0.9


def test_fedmef_presses_the_smallest_to_zero_and_leaves_the_others_to_the_loss() -> None:
    start = tiny([0.1, 1.0, -2.0, 3.0], [0, 1, 4, 5])
    method = make("run.method=fedmef", "pruning.density=0.5")
    local = Pretend(start, {"w": np.zeros((2, 3), np.float32)}, rate=0.05)
    update = method.train(Extrude(own_masks=True, share=0.5), local)  # type: ignore[arg-type]
    # halved in each of two steps: the two smallest of four
    np.testing.assert_allclose(update.state.values["w"], [0.025, 0.25, -2.0, 3.0], rtol=1e-6)


def test_fedmef_trades_by_the_mean_of_what_clients_marked(network: Network) -> None:
    method = make("run.method=fedmef", "pruning.density=0.3", "run.rounds=40", "pruning.interval=2")
    chosen, weights = method.first(network), weights_of(network)
    work = method.work(2, chosen.memory, SECONDS)
    assert isinstance(work, Extrude)
    sent = SparseState.from_dense(weights, chosen.masks)
    source = np.random.default_rng(1)
    slopes = {name: source.normal(size=shape).astype(np.float32) for name, shape in sent.masks.shapes.items()}
    # a layer that is nearly whole has few places to grow
    wanted = {
        name: min(int(work.share * count), chosen.masks.sizes[name] - count)
        for name, count in chosen.masks.counts.items()
    }
    marked = mark_steepest(sent, slopes, wanted)
    after = method.next(look(method, chosen, weights, 2, updates=[received(marked)])).masks
    assert after.counts == chosen.masks.counts
    for name in NAMES:
        gone, grown = chosen.masks[name] & ~after[name], after[name] & ~chosen.masks[name]
        assert np.count_nonzero(grown) == wanted[name] > 0
        assert (
            np.abs(weights[name][gone]).max() <= np.abs(weights[name][chosen.masks[name] & after[name]]).min()
        )
        pruned = ~chosen.masks[name]
        assert np.abs(slopes[name][grown]).min() >= np.abs(slopes[name][pruned & ~grown]).max(initial=0)


def test_fedtinys_clients_rate_candidates_of_one_density_and_send_no_model(network: Network) -> None:
    method = make("run.method=fedtiny", "pruning.density=0.05")
    work = method.work(0, method.first(network).memory, SECONDS)
    assert work == Rate(own_masks=True, candidates=2)
    local = Pretend(network.first, {})
    update = method.train(work, local)  # type: ignore[arg-type]
    assert update.numbers == {"losses": [1.0, 2.0]}
    assert update.state.masks.density == 0
    assert len({state.masks.digest for state in local.losses}) == 2
    for state in local.losses:
        assert state.masks.density == pytest.approx(0.05, rel=0.05)
        for name, mask in state.masks.items():
            size = np.abs(network.first.dense(name))
            assert size[mask].min() >= size[~mask].max()
    charged = method.cost(work, network.full_masks.sizes, {})
    assert [steps.live for steps in charged] == [state.masks.counts for state in local.losses]
    assert [steps.count for steps in charged] == [pytest.approx(5 / 3)] * 2


def test_fedtiny_starts_from_the_candidate_that_clients_find_best(network: Network) -> None:
    method = make("run.method=fedtiny", "pruning.density=0.025")
    chosen, full = method.first(network), network.first
    told = [
        rated(full, 0, 0.75, 1, 3, 2, 9),
        rated(full, 1, 0.25, 9, 2, 1, 9),
    ]
    # means: 3, 2.75, 1.75, 9
    seen = look(method, chosen, weights_of(network), 0, updates=told)
    after = method.next(seen)
    assert after.masks == method.candidate(full, 2)  # type: ignore[attr-defined]
    assert after.memory.numbers == {LIVE + name: count for name, count in after.masks.counts.items()}


def rated(state: SparseState, client: int, share: float, *losses: float) -> Any:
    given = received(state, client, share)
    return type(given)(given.client, given.share, given.state, {"losses": list(map(float, losses))})


@pytest.mark.parametrize("numbers", [{}, {"losses": [1.0]}, {"losses": [1.0, float("nan")]}, {"losses": 1.0}])
def test_fedtiny_refuses_losses_that_were_not_asked_for(network: Network, numbers: Any) -> None:
    method = make("run.method=fedtiny", "pruning.density=0.05")
    method.check(Rate(candidates=2), {"losses": [1.0, 2.0]}, network.full_masks)
    with pytest.raises(BadUpdate):
        method.check(Rate(candidates=2), numbers, network.full_masks)


def test_fedtiny_goes_from_the_last_layer_to_the_first_and_stops_after_a_third(network: Network) -> None:
    method = make("run.method=fedtiny", "pruning.density=0.3", "run.rounds=60", "pruning.interval=4")
    chosen = method.next(
        look(
            method,
            method.first(network),
            weights_of(network),
            0,
            updates=[rated(network.first, 0, 1.0, 1, 2)],
        )
    )
    works = {round: method.work(round, chosen.memory, SECONDS) for round in range(1, 60)}
    asked = {round: work.layer for round, work in works.items() if isinstance(work, Progress) and work.count}
    # in the next turn so few are left to exchange that the last layer has none
    assert asked == {4: "5.weight", 8: "3.weight", 12: "0.weight"}
    live = chosen.masks.counts["5.weight"]
    assert works[4].count == int(0.4 / 2 * (1 + np.cos(np.pi * 4 / 20)) * live)  # type: ignore[attr-defined]


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
    np.testing.assert_allclose(mean.values["w"], [0.25 * 4, 0.75 * -2, 0.75 * 3 + 0.25 * 7], rtol=1e-6)


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
