"""Rivals beside their authors' published code: cases of six weights, with the numbers that their rules give."""

import numpy as np
import pytest
from method_cases import SECONDS, make, received
from pretend_client import Pretend, tiny

from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.state import Arrays, SparseState
from prunefl.methods import Method, Received, Seen
from prunefl.methods.exchange import decayed_share
from prunefl.methods.feddip import strength
from prunefl.methods.fedmef import Extrude, smallest
from prunefl.methods.fedrts import BAD, GOOD
from prunefl.methods.fedtiny import Rate, exchanged
from prunefl.methods.ssfl import Score

LONG = "run.rounds=1000"


def seen(
    method: Method, round: int, updates: list[Received], known: Arrays, statistic: Arrays | None = None
) -> Seen:
    """Return what the server half sees after a round of these updates: the mean of those under common masks."""
    memory, start = Memory(arrays=known), tiny([0.0] * 4, [0, 1, 4, 5])
    work = method.work(round, memory, SECONDS)
    state = method.combine(work, start, updates, memory).state
    return Seen(round, work, state, statistic, updates, 1.0, memory, SECONDS)


def test_ssfl_keeps_the_largest_of_the_clients_mean_scores() -> None:
    """Scores are |w·g| at each client, then averaged: gradients of opposite signs do not cancel."""
    start = tiny([0.5, -1.0, 2.0, 0.1, -0.2, 3.0], [0, 1, 2, 3, 4, 5])
    method = make("run.method=ssfl", "pruning.density=0.5")
    slopes = [[2.0, 0.3, -0.1, 4.0, 1.0, 0.0], [0.0, -1.0, 0.5, 0.0, 2.0, 0.2]]
    scores = []
    for slope in slopes:
        local = Pretend(start, {"w": np.array(slope, np.float32).reshape(2, 3)})
        told = method.train(Score(report="importance", own_masks=True), local).statistic  # type: ignore[arg-type]
        assert told is not None
        scores.append(told["w"])
    np.testing.assert_allclose(scores[0].ravel(), [1.0, 0.3, 0.2, 0.4, 0.2, 0.0], rtol=1e-6)
    mean = 0.75 * scores[0] + 0.25 * scores[1]
    # 0.75, 0.475, 0.4, 0.3, 0.25, 0.15; |w · mean gradient| would keep places 0, 3 and 4
    look = Seen(0, Score(), start, {"w": mean}, [], 1.0, Memory(), SECONDS)
    assert np.flatnonzero(method.next(look).masks["w"]).tolist() == [0, 1, 2]


def test_fedrts_counts_live_weights_in_every_round_and_pruned_ones_when_it_draws() -> None:
    """γ = 0.5, λ = 10, Beta(1, 1); four live weights, of which one is up for exchange; clients of 3 and 1 samples.

    Place 0 is smallest in the mean and at client 0, place 1 at client 1. So in a round place 0 gains
    10·(0.5·0 + 0.5·0.25) = 1.25, place 1 10·(0.5·1 + 0.5·0.75) = 8.75, the others 10. In the second round client 0
    marks place 2 and client 1 place 3: 10·(0.5·0.5 + 0.5·0.75) = 6.25, and 3.75.
    """
    method = make(
        "run.method=fedrts", "pruning.density=0.5", "pruning.interval=2", "pruning.fraction=0.4", LONG
    )
    assert int(4 * decayed_share(method, 1)) == int(4 * decayed_share(method, 2)) == 1
    known: Arrays = {kind + "w": np.ones((2, 3), np.float32) for kind in (GOOD, BAD)}
    plain = [
        received(tiny([0.1, 1.0, 2.0, 3.0], [0, 1, 4, 5]), 0, 0.75),
        received(tiny([2.0, 0.5, 1.0, 3.0], [0, 1, 4, 5]), 1, 0.25),
    ]
    known = method.next(seen(method, 1, plain, known)).memory.arrays
    assert known[GOOD + "w"].ravel().tolist() == [2.25, 9.75, 1, 1, 11, 11]
    assert known[BAD + "w"].ravel().tolist() == [9.75, 2.25, 1, 1, 1, 1]
    marked = [
        received(tiny([0.1, 1.0, -7.0, 2.0, 3.0], [0, 1, 2, 4, 5]), 0, 0.75),
        received(tiny([2.0, 0.5, 7.0, 1.0, 3.0], [0, 1, 3, 4, 5]), 1, 0.25),
    ]
    drawn = method.next(seen(method, 2, marked, known))
    assert drawn.memory.arrays[GOOD + "w"].ravel().tolist() == [3.5, 18.5, 7.25, 4.75, 21, 21]
    assert drawn.memory.arrays[BAD + "w"].ravel().tolist() == [18.5, 3.5, 4.75, 7.25, 1, 1]
    assert drawn.masks.counts == {"w": 4}


def test_fedmef_marks_the_smallest_live_weights_and_grows_where_the_mean_gradient_is_largest() -> None:
    """Marked gradients are averaged with their signs: −4·0.5 + 8·0.25 = 0 at place 2, 1·0.25 at place 3."""
    state = tiny([0.1, -1.0, 2.0, 3.0], [0, 1, 4, 5])
    assert smallest(state, 0.5)["w"].tolist() == [True, True, False, False]
    method = make(
        "run.method=fedmef", "pruning.density=0.5", "pruning.interval=2", "pruning.fraction=0.4", LONG
    )
    updates = [
        received(tiny([0.1, -1.0, -4.0, 2.0, 3.0], [0, 1, 2, 4, 5]), 0, 0.5),
        received(tiny([0.1, -1.0, 8.0, 2.0, 3.0], [0, 1, 2, 4, 5]), 1, 0.25),
        received(tiny([0.1, -1.0, 1.0, 2.0, 3.0], [0, 1, 3, 4, 5]), 2, 0.25),
    ]
    look = seen(method, 2, updates, {})
    assert isinstance(look.work, Extrude)
    assert np.flatnonzero(method.next(look).masks["w"]).tolist() == [1, 3, 4, 5]


def test_fedtiny_weighs_a_clients_losses_by_its_samples(network: Network) -> None:
    """Sums of losses over all samples: 3·1 + 1.5 against 3·1.2 + 1. Clients counted alike would choose the second."""
    method = make("run.method=fedtiny", "pruning.density=0.05")
    full = network.first
    updates = [
        Received(0, 0.75, full, {"losses": [1.0, 1.2]}),
        Received(1, 0.25, full, {"losses": [1.5, 1.0]}),
    ]
    look = Seen(0, Rate(own_masks=True, candidates=2), full, None, updates, 1.0, Memory(), SECONDS)
    assert method.next(look).masks == method.candidate(full, 0)  # type: ignore[attr-defined]


def test_fedtinys_candidates_have_layers_of_half_to_one_and_a_half_times_the_density() -> None:
    """d + (u − 0.5)·d with u from 0 to 1: no layer is thrice as dense as another, and all are within 2 % of d."""
    sizes = {"a": 40_000, "b": 60_000, "c": 50_000}
    method = make("run.method=fedtiny", "pruning.density=0.1")
    ratios = []
    for number in range(1, 60):
        counts = method.candidate_counts(sizes, number)  # type: ignore[attr-defined]
        densities = [counts[name] / size for name, size in sizes.items()]
        ratios.append(max(densities) / min(densities))
        assert sum(counts.values()) / sum(sizes.values()) == pytest.approx(0.1, rel=0.02)
    assert 2 < max(ratios) <= 3.01


def test_fedtiny_exchanges_half_its_share_after_a_sixth_of_the_rounds_and_none_after_a_third() -> None:
    """A cosine that ends at round 100 of 300: half of it at round 50."""
    method = make("run.method=fedtiny", "pruning.density=0.1", "pruning.fraction=0.3", "run.rounds=300")
    assert [exchanged(round, method) for round in (50, 100, 150)] == [pytest.approx(0.15), 0, 0]


def test_sparsyfed_averages_the_powers_roots_not_the_weights() -> None:
    """β = 1.25: (0.75·16^0.8)^1.25 = 11.167, −0.75^1.25 = −0.698, (0.25·32^0.8)^1.25 = 5.657."""
    method = make("run.method=sparsyfed", "pruning.density=0.5")
    updates = [
        received(tiny([16.0, -1.0], [0, 1]), 0, 0.75),
        received(tiny([32.0], [3]), 1, 0.25),
    ]
    start = tiny([0.0] * 6, [0, 1, 2, 3, 4, 5])
    mean = method.combine(method.work(1, Memory(), SECONDS), start, updates, Memory()).state
    assert np.flatnonzero(mean.masks["w"]).tolist() == [0, 1, 3]
    np.testing.assert_allclose(mean.values["w"], [11.1673, -0.6980, 5.6569], rtol=1e-4)


def test_sparsyfeds_step_is_that_of_its_authors_layers() -> None:
    """v − 0.1·s·1.25·|v|^0.25, to the power of 1.25: 16 goes to 15.5277, −1 to −0.8463, and 0 stays."""
    start = tiny([16.0, -1.0, 0.0], [0, 1, 2])
    method = make("run.method=sparsyfed", "pruning.density=0.5")
    local = Pretend(start, {"w": np.array([[1.0, -1.0, 5.0], [0, 0, 0]], np.float32)}, rate=0.1)
    local.batches = lambda: [0]  # type: ignore[method-assign]
    state: SparseState = method.train(method.work(1, Memory(), SECONDS), local).state  # type: ignore[arg-type]
    assert np.flatnonzero(state.masks["w"]).tolist() == [0, 1, 2]
    np.testing.assert_allclose(state.values["w"], [15.5277, -0.8463, 0.0], rtol=1e-4)


@pytest.mark.parametrize("rounds", [60, 300, 1000])
def test_feddips_penalty_is_that_of_its_authors_twentieths(rounds: int) -> None:
    """None in the first twentieth of the rounds, then 5·10⁻⁴, and 5·10⁻⁴/19 more in each further one."""
    firsts = [rounds * part // 20 + 1 for part in (0, 1, 10)]
    assert [strength(round, rounds) for round in firsts] == [0, 5e-4, pytest.approx(7.368421e-4)]
    assert [strength(round, rounds) for round in (rounds // 20, rounds)] == [0, pytest.approx(9.736842e-4)]


def test_feddip_is_at_a_tenth_when_half_the_rounds_to_a_twentieth_are_over() -> None:
    """Sparsity 0.95 + (0.5 − 0.95)·(1 − 500/1000)³ = 0.89375."""
    method = make("run.method=feddip", "pruning.density=0.05", "pruning.interval=50", LONG)
    assert method.work(500, Memory(), SECONDS).density == pytest.approx(0.10625)  # type: ignore[attr-defined]
