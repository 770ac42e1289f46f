"""FedRTS, FedMef and FedTiny, whose clients propose places to exchange: both halves of each, against sums by hand."""

from typing import Any

import numpy as np
import pytest
from method_cases import NAMES, SECONDS, look, make, received, weights_of
from pretend_client import SLOPES, Pretend, tiny

from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import BadUpdate
from prunefl.methods.candidates import mark_steepest, mean_marked, mean_under, trade
from prunefl.methods.fedmef import Extrude
from prunefl.methods.fedrts import BAD, GOOD, NEITHER, STEP, TRUST, Vote, live_outcomes, marked_outcomes
from prunefl.methods.fedtiny import LIVE, Progress, Rate


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
    # by the mean (a tie: the earlier) place 0 stays; by client 0 place 4, by client 1 place 0
    live = live_outcomes(mean, updates, 0.5)["w"]
    assert live.tolist() == [TRUST * 1 + (1 - TRUST) * 0.25, (1 - TRUST) * 0.75]
    pruned = marked_outcomes(mean.masks, updates)["w"]
    assert pruned.tolist() == [TRUST * NEITHER + (1 - TRUST) * share for share in (0.75, 0, 0.25, 0)]


def test_fedrts_remembers_every_round_and_draws_by_it(network: Network) -> None:
    method = make("run.method=fedrts", "pruning.density=0.3", "run.rounds=40", "pruning.interval=2")
    chosen, weights = method.first(network), weights_of(network)
    counts = chosen.masks.counts
    heard = {name: np.zeros(mask.shape, int) for name, mask in chosen.masks.items()}
    ever = {name: mask.copy() for name, mask in chosen.masks.items()}
    for round in range(1, 11):
        before, exchanges = chosen, round % 2 == 0
        sent = SparseState.from_dense(weights, chosen.masks)
        work = method.work(round, chosen.memory, SECONDS)
        assert isinstance(work, Vote)
        assert (work.share > 0) == work.own_masks == exchanges
        chosen = method.next(look(method, chosen, weights, round, updates=[received(sent)]))
        assert chosen.masks.counts == counts
        assert exchanges or chosen.masks is before.masks
        for name in NAMES:
            # one observation a round while it lives, whatever it says; of pruned ones when masks are drawn
            heard[name] += before.masks[name] | exchanges
            good, bad = (chosen.memory.arrays[kind + name] for kind in (GOOD, BAD))
            np.testing.assert_allclose(good + bad, 2 + STEP * heard[name], rtol=1e-6)
            # nobody has marked any: the mean model's half of a doubt is all that speaks for them
            alone = good[~ever[name]]
            np.testing.assert_allclose(alone, 1 + STEP * TRUST * NEITHER * (round // 2), rtol=1e-6)
            ever[name] |= chosen.masks[name]
    # what was always live and large is still there
    for name in NAMES:
        assert chosen.masks[name][chosen.memory.arrays[GOOD + name] == 1 + 10 * STEP].mean() > 0.9


def test_fedrts_draws_nothing_and_learns_nothing_in_the_last_quarter(network: Network) -> None:
    method = make("run.method=fedrts", "pruning.density=0.3", "run.rounds=40", "pruning.interval=2")
    chosen, weights = method.first(network), weights_of(network)
    sent = SparseState.from_dense(weights, chosen.masks)
    last = method.next(look(method, chosen, weights, 29, updates=[received(sent)]))
    assert last.memory is not chosen.memory
    after = method.next(look(method, chosen, weights, 30, updates=[received(sent)]))
    assert after.masks is chosen.masks
    assert after.memory is chosen.memory


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
