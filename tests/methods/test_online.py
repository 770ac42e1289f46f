"""Online learning moves k as Han, Wang and Leung's rule says."""

from math import sqrt

import numpy as np
import pytest
from method_cases import NAMES, SECONDS, look, make, received, weights_of

from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import BadUpdate
from prunefl.methods.online import Probe, Search, advance, prune_values, start

N = 100_000
NO_CARRY = (1.0, 1.0)
THREE = {"previous_loss": 2.0, "loss": 1.0, "probe_loss": 1.0}


def test_the_search_starts_full_with_nine_tenths_beside_it() -> None:
    assert start(N) == Search(N, 90_000, 200.0, N, 200.0, N)


def test_k_falls_while_fewer_weights_learn_as_much_for_less() -> None:
    """B = 99,800; δ_m = B/√(2m). k' learns as much as k and costs less, so k falls by δ each time."""
    search, expected = start(N), []
    for loss in (1.9, 1.8, 1.7):
        search = advance(search, (loss + 0.1, loss, loss), 10, 9, NO_CARRY)
        expected.append((search.k, search.probe))
    delta = [99_800 / sqrt(2 * m) for m in (1, 2, 3)]
    first = int(N - delta[0])
    second = max(int(first - delta[1]), 200)
    assert first == 29_430
    assert second == 200
    assert expected == [
        (first, max(int(first - delta[0] / 2), 20)),
        (200, 20),
        (200, 20),
    ]


def test_k_rises_where_the_probe_learns_too_little() -> None:
    """τ(k') = 9 · 0.1 / 0.05 = 18 > τ(k) = 10, so that k grows by δ and is projected to N."""
    search = Search(50_000, 40_000, 200.0, N, 200.0, N, since=49)
    moved = advance(search, (2.0, 1.9, 1.95), 10, 9, NO_CARRY)
    assert moved.k == int(50_000 + 99_800 / sqrt(100))
    assert advance(Search(**{**vars(search), "k": 99_000}), (2.0, 1.9, 1.95), 10, 9, NO_CARRY).k == N


def test_equal_cost_leaves_k() -> None:
    search = Search(50_000, 40_000, 200.0, N, 200.0, N, since=49)
    assert advance(search, (2.0, 1.9, 1.95), 10, 5, NO_CARRY).k == 50_000


def test_a_risen_loss_tells_nothing_until_it_has_risen_long() -> None:
    search = Search(50_000, 40_000, 200.0, N, 200.0, N, since=39)
    for _ in range(10):
        search = advance(search, (2.0, 2.1, 9.0), 10, 9, NO_CARRY)
        assert search.k == 50_000
    assert advance(search, (2.0, 2.1, 9.0), 10, 9, NO_CARRY).k == int(50_000 + 99_800 / sqrt(100))


def test_stochastic_rounding_takes_the_upper_number_with_the_fraction_as_chance() -> None:
    search = Search(50_000, 40_000, 200.0, N, 200.0, N, since=2)
    exact = 50_000 - 99_800 / sqrt(6)
    carry = exact - int(exact)
    assert advance(search, (2.0, 1.9, 1.9), 10, 9, (carry - 1e-3, 1.0)).k == int(exact) + 1
    assert advance(search, (2.0, 1.9, 1.9), 10, 9, (carry + 1e-3, 1.0)).k == int(exact)


def test_the_interval_shrinks_after_twenty_updates_when_it_pays() -> None:
    """k stays within [3000, 3300]: the new interval is [2000, 4950], far below (√2 - 1) of the old one."""
    steady = {"low": 200.0, "high": float(N), "least": 200.0, "most": float(N)}
    almost = Search(3300, 2000, **steady, since=400, updates=19, smallest=3000, largest=3300)
    shrunk = advance(almost, (2.0, 1.9, 1.95), 10, 5, NO_CARRY)
    assert (shrunk.low, shrunk.high, shrunk.since, shrunk.updates) == (2000, 4950, 0, 0)
    wide = advance(Search(**{**vars(almost), "largest": 60_000}), (2.0, 1.9, 1.95), 10, 5, NO_CARRY)
    assert (wide.low, wide.high, wide.since, wide.updates) == (200, N, 401, 0)


def test_pruned_weights_come_back_with_the_value_they_had(network: Network) -> None:
    method, weights = make("run.method=online"), weights_of(network)
    chosen, state = method.first(network), network.first
    work = method.work(1, chosen.memory, SECONDS)
    assert isinstance(work, Probe)
    assert work.density == pytest.approx(636 / 706)
    updates = [received(state, previous_loss=0.0, loss=2.0, probe_loss=2.0)]
    chosen = method.next(look(method, chosen, weights, 1, updates=updates))
    # two clients, the larger one's losses count three times: 1.9 and 1.9, fewer weights do as well
    updates = [
        received(state, 0, 0.75, previous_loss=2.0, loss=1.8, probe_loss=1.8),
        received(state, 1, 0.25, previous_loss=2.0, loss=2.2, probe_loss=2.2),
    ]
    small = method.next(look(method, chosen, weights, 2, updates=updates))
    assert sum(small.masks.counts.values()) < 300
    assert {name: round(float(mask.mean()), 1) for name, mask in small.masks.items()} == dict.fromkeys(
        NAMES, 0.3
    )
    trained = {name: w * small.masks[name] if name in small.masks else w for name, w in weights.items()}
    updates = [received(state, previous_loss=1.9, loss=1.7, probe_loss=1.8999)]
    grown = method.next(look(method, small, trained, 3, updates=updates))
    assert grown.state is not None
    for name in NAMES:
        assert grown.masks.counts[name] > small.masks.counts[name]
        assert np.array_equal(grown.state.dense(name), weights[name] * grown.masks[name])


def test_the_probed_model_has_each_layers_largest_weights_and_the_same_masks(network: Network) -> None:
    masks = make("run.method=erk", "pruning.density=0.5").first(network).masks
    state = SparseState.from_dense(weights_of(network), masks)
    probed = prune_values(state, 0.1)
    assert probed.masks is masks
    for name, size in masks.sizes.items():
        before, after = np.abs(state.dense(name)).ravel(), np.abs(probed.dense(name)).ravel()
        order = np.argsort(-before, kind="stable")
        assert np.array_equal(after[order[: round(0.1 * size)]], before[order[: round(0.1 * size)]])
        assert not after[order[round(0.1 * size) :]].any()
    assert np.array_equal(probed.values["0.bias"], state.values["0.bias"])


@pytest.mark.parametrize(
    "numbers",
    [{}, {"loss": 1.0, "probe_loss": 1.0}, {**THREE, "probe_loss": [1.0]}, {**THREE, "x": 1.0}],
)
def test_losses_that_were_not_asked_for_or_are_missing_are_refused(
    network: Network, numbers: dict[str, float | list[float]]
) -> None:
    method = make("run.method=online")
    method.check(Probe(), THREE, network.full_masks)
    with pytest.raises(BadUpdate, match="must report the losses"):
        method.check(Probe(), numbers, network.full_masks)


def test_two_losses_of_five_samples_are_charged() -> None:
    counts = {"0.weight": 7}
    plain, losses = make("run.method=online", "training.batch_size=20").cost(Probe(), counts, THREE)
    assert (plain.count, plain.live) == (5, counts)
    assert losses.count == pytest.approx(2 * 5 / 20 / 3)
    assert losses.live == counts
