"""ERK, SET, RigL and FedDST hold their density, and change what they should."""

import numpy as np
import pytest
from method_cases import SECONDS, look, make, weights_of

from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.state import SparseState
from prunefl.methods import Method
from prunefl.methods.erk import erk_counts
from prunefl.methods.exchange import exchange, exchanged_share
from prunefl.methods.feddst import Swap

COMMON = ("pruning.fraction=0.3", "pruning.density=0.2", "pruning.interval=10", "run.rounds=100")


def test_erk_shares_by_the_sum_of_sides() -> None:
    """30 of 150 weights: sides 15 and 15 are equal, so that each layer gets half."""
    assert erk_counts({"a": (5, 10), "b": (10, 5)}, 0.3) == {"a": 15, "b": 15}
    # sides 4+1+3+3 = 11, 10+64 = 74, 3+10 = 13 of 98; 141 live: 15.8, 106.5, 18.7
    shapes = {"0.weight": (4, 1, 3, 3), "3.weight": (10, 64), "5.weight": (3, 10)}
    assert erk_counts(shapes, 0.2) == {"0.weight": 16, "3.weight": 106, "5.weight": 19}


def test_erk_fills_a_small_layer_and_gives_the_rest_to_others() -> None:
    shapes = {"small": (2, 2), "large": (100, 100)}
    assert erk_counts(shapes, 0.05) == {"small": 4, "large": 496}
    assert erk_counts(shapes, 1.0) == {"small": 4, "large": 10000}


@pytest.mark.parametrize("method", ["erk", "set", "rigl", "feddst"])
def test_first_masks_are_erk_of_the_seed(method: str, network: Network) -> None:
    chosen = [
        make(f"run.method={method}", f"run.seed={seed}", *COMMON).first(network).masks for seed in (1, 1, 2)
    ]
    assert chosen[0].counts == {"0.weight": 16, "3.weight": 106, "5.weight": 19}
    assert np.array_equal(chosen[0]["3.weight"], chosen[1]["3.weight"])
    assert not np.array_equal(chosen[0]["3.weight"], chosen[2]["3.weight"])


def begin(name: str) -> Method:
    return make(f"run.method={name}", *COMMON)


def test_static_erk_never_changes(network: Network) -> None:
    method = begin("erk")
    chosen = method.first(network)
    for round in (1, 10, 80):
        assert method.next(look(method, chosen, weights_of(network), round)).masks is chosen.masks


def test_set_exchanges_the_smallest_for_random_others_at_the_interval(network: Network) -> None:
    method, weights = begin("set"), weights_of(network)
    chosen = method.first(network)
    assert method.next(look(method, chosen, weights, 9)).masks is chosen.masks
    moved = method.next(look(method, chosen, weights, 10)).masks
    assert moved.counts == chosen.masks.counts
    # cosine at 10 of 75 rounds: 0.3/2 (1 + cos(2π/15)) = 0.287, of 106 weights 30
    before = chosen.masks["3.weight"]
    kept, size = before & moved["3.weight"], np.abs(weights["3.weight"])
    order = np.sort(size[before])
    assert kept[before & (size > order[29])].all()
    assert np.count_nonzero(kept) < 106
    assert method.next(look(method, chosen, weights, 80)).masks is chosen.masks


def test_rigl_grows_where_the_gradient_is_largest(network: Network) -> None:
    method, weights = begin("rigl"), weights_of(network)
    chosen = method.first(network)
    assert [method.work(r, chosen.memory, SECONDS).report for r in (9, 10, 80)] == ["", "gradient", ""]
    gradient = {name: np.zeros_like(value) for name, value in weights.items()}
    dead = np.flatnonzero(~chosen.masks["3.weight"])
    steep = np.random.default_rng(0).permutation(dead)[:30]
    gradient["3.weight"].reshape(-1)[steep] = -np.arange(1.0, 31.0)
    moved = method.next(look(method, chosen, weights, 10, statistic=gradient)).masks
    assert moved["3.weight"].reshape(-1)[steep].all()
    assert moved.counts["3.weight"] == 106


def test_feddst_asks_for_a_swap_at_the_interval_and_then_allows_masks_of_ones_own() -> None:
    method = begin("feddst")
    given = [method.work(round, Memory(), SECONDS) for round in (9, 10, 80)]
    assert [isinstance(work, Swap) and work.share > 0 for work in given] == [False, True, False]
    assert [work.own_masks for work in given] == [False, True, False]


def test_feddst_reprunes_the_union_to_each_layers_first_count(network: Network) -> None:
    method, source = begin("feddst"), np.random.default_rng(1)
    chosen = method.first(network)
    union = Masks({n: mask | (source.random(mask.shape) < 0.5) for n, mask in chosen.masks.items()})
    weights = {n: source.normal(size=w.shape).astype(np.float32) for n, w in weights_of(network).items()}
    after = method.next(look(method, chosen, weights, 10, masks=union)).masks
    assert after.counts == chosen.masks.counts
    for name, mask in after.items():
        lost, size = union[name] & ~mask, np.abs(weights[name])
        assert lost.any()
        assert not (mask & ~union[name]).any()
        assert size[mask].min() >= size[lost].max()


def layer(live: list[bool], weights: list[float]) -> SparseState:
    """Return a state of one layer."""
    return SparseState.from_dense({"w": np.array(weights, np.float32)}, Masks({"w": np.array(live)}))


def exchanged(state: SparseState, growth: list[float], share: float) -> list[bool]:
    found: list[bool] = exchange(state, {"w": np.array(growth)}, share)["w"].tolist()
    return found


def test_exchange_drops_the_smallest_and_grows_the_best() -> None:
    state = layer([True, True, True, True, False, False], [4.0, -3.0, 0.1, 2.0, 0.0, 0.0])
    after = exchanged(state, [9.0, 9.0, 0.0, 9.0, 1.0, 2.0], 0.25)
    assert after == [True, True, False, True, False, True]


def test_a_dropped_weight_may_win_its_place_back() -> None:
    state = layer([True, True, False], [4.0, 0.1, 0.0])
    assert exchanged(state, [0.0, 5.0, 1.0], 0.5) == [True, True, False]


def test_exchange_of_a_full_layer_changes_nothing() -> None:
    state = layer([True] * 4, [0.4, 0.3, 0.2, 0.1])
    assert exchanged(state, [0.1, 0.2, 0.3, 0.4], 0.5) == [True] * 4


def test_the_exchanged_share_falls_by_a_cosine_to_zero_at_three_quarters() -> None:
    method = make(
        "run.method=set",
        "pruning.density=0.2",
        "pruning.interval=1",
        "pruning.fraction=0.3",
        "run.rounds=100",
    )
    assert exchanged_share(method, 0) == 0.3
    assert exchanged_share(method, 25) == pytest.approx(0.3 / 2 * (1 + 0.5))
    assert exchanged_share(method, 74) == pytest.approx(0.3 / 2 * (1 + np.cos(np.pi * 74 / 75)))
    assert exchanged_share(method, 75) == 0
    assert exchanged_share(make("run.method=set", *COMMON), 11) == 0
