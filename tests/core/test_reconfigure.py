"""Algorithm 2 against exhaustive search and sort-and-scan, and what reconfiguration makes of it."""

import numpy as np
import pytest

from choice_oracle import best_subset, exhaustive, sort_and_scan
from prunefl.core.masks import Masks
from prunefl.core.reconfigure import best_of_layers, guard_by_magnitude, protect, reconfigure
from prunefl.core.state import SparseState
from prunefl.core.time_model import FleetTime, LinearTime
from random_states import full


def random_problem(rng: np.random.Generator, high: int) -> tuple[list[int], list[int], int, int]:
    n = int(rng.integers(0, 8))
    lowest_cost = int(rng.integers(0, 2))
    gain, cost = rng.integers(0, high, n).tolist(), rng.integers(lowest_cost, high, n).tolist()
    return gain, cost, int(rng.integers(0, high)), int(rng.integers(0, high) * rng.integers(0, 2))


def one_layer_a_weight(
    gain: list[float], cost: list[float], kept_gain: float, kept_cost: float
) -> list[bool]:
    """Return what is taken if each weight is a layer of its own, so that each has a cost of its own."""
    candidates = {f"{number}": np.array([one], np.float64) for number, one in enumerate(gain)}
    time = LinearTime(kept_cost, {f"{number}": float(one) for number, one in enumerate(cost)})
    taken = best_of_layers(candidates, time, kept_gain, dict.fromkeys(candidates, 0), 10**9)
    return [bool(count) for count in taken.values()]


@pytest.mark.parametrize("high", [2, 3, 5, 60])
def test_what_is_taken_is_the_exhaustive_best_ties_zeros_and_no_constant_among_them(
    high: int, rng: np.random.Generator
) -> None:
    for _ in range(600):
        problem = random_problem(rng, high)
        expected = exhaustive(*problem)
        assert one_layer_a_weight(*problem) == expected, problem
        gain, cost, kept_gain, kept_cost = problem
        assert best_subset(np.array(gain), np.array(cost), kept_gain, kept_cost).tolist() == expected, problem


def test_a_million_weights_are_sorted_and_scanned(rng: np.random.Generator) -> None:
    names = [f"layer{k}" for k in range(1000)]
    gain = np.square(rng.standard_normal(1_000_000, np.float32))
    slopes = 1e-6 * (0.1 + rng.random(1000))
    found = best_of_layers(
        dict(zip(names, np.split(gain, 1000), strict=True)),
        LinearTime(3.0, dict(zip(names, slopes.tolist(), strict=True))),
        50_000.0,
        dict.fromkeys(names, 0),
        10**9,
    )
    expected = sort_and_scan(gain, np.repeat(slopes, 1000), 50_000.0, 3.0)
    assert 1_000 < int(expected.sum()) < 999_000
    assert list(found.values()) == expected.reshape(1000, 1000).sum(axis=1).tolist()
    np.testing.assert_array_equal(best_subset(gain, np.repeat(slopes, 1000), 50_000.0, 3.0), expected)


def test_equal_ratios_qualify_together_in_spite_of_rounding() -> None:
    gain, cost = np.full(1_000, 0.1), np.full(1_000, 0.3)
    kept = float(gain[:7].sum()), float(cost[:7].sum())
    assert all(one_layer_a_weight(gain.tolist(), cost.tolist(), *kept))
    assert best_of_layers({"a": gain}, LinearTime(kept[1], {"a": 0.3}), kept[0], {"a": 0}, 10**9) == {
        "a": 1_000
    }


SHAPES = {"0.weight": (8, 1, 3, 3), "3.weight": (50, 40), "5.weight": (10, 50)}
TIME = LinearTime(1.0, {"0.weight": 0.0, "3.weight": 1e-4, "5.weight": 3e-4})


def small_state(seed: int = 0) -> tuple[SparseState, dict[str, np.ndarray]]:
    """Return a half-pruned state, and importance of all its weights."""
    rng = np.random.default_rng(seed)
    weights = {n: rng.standard_normal(s, np.float32) for n, s in SHAPES.items()}
    importance = {n: np.square(rng.standard_normal(s, np.float32)) for n, s in SHAPES.items()}
    masks = Masks({n: rng.random(s) < 0.5 for n, s in SHAPES.items()})
    return SparseState.from_dense(weights, masks), importance


def protect_by_magnitude(state: SparseState, fraction: float, scope: str) -> Masks:
    return protect(state.masks, guard_by_magnitude(state), fraction, scope)


def test_the_smallest_fraction_of_each_layer_is_prunable_with_exact_counts_under_ties() -> None:
    weights = {"a": np.ones((10, 10), np.float32), "b": np.array([3, -1, 2, 0], np.float32)}
    masks = Masks({"a": np.ones((10, 10), np.bool_), "b": np.array([True, True, False, True])})
    protected = protect_by_magnitude(SparseState.from_dense(weights, masks), 0.3, "layer")
    assert protected.counts["a"] == 70
    assert not protected["a"].reshape(-1)[:30].any()  # of equals the first ones
    assert protected["b"].tolist() == [True, True, False, False]  # a live weight of value 0.0 counts as live


def test_global_scope_compares_magnitudes_across_layers() -> None:
    weights = {"a": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "b": np.array([1, 2, 3, 4], np.float32)}
    protected = protect_by_magnitude(SparseState(weights, full(a=4, b=4)), 0.5, "global")
    assert not protected["a"].any()
    assert protected["b"].all()


def test_impossible_fractions_and_scopes_are_refused() -> None:
    nothing = SparseState({}, Masks({}))
    with pytest.raises(ValueError, match=r"fraction=1.5"):
        protect_by_magnitude(nothing, 1.5, "layer")
    with pytest.raises(ValueError, match=r"scope='model'"):
        protect_by_magnitude(nothing, 0.5, "model")


def test_reconfigure_equals_algorithm_2_on_the_flat_problem(seed: int) -> None:
    state, importance = small_state(seed)
    found = reconfigure(state, importance, TIME, fraction=0.3, fixed_gain=300.0)
    protected = {}
    for name, mask in state.masks.items():
        order = np.where(mask, np.abs(state.dense(name)), 1e9).reshape(-1).argsort(stable=True)
        flat = mask.reshape(-1).copy()
        flat[order[: round(0.3 * int(mask.sum()))]] = False
        protected[name] = flat
    gain = np.concatenate([importance[n].reshape(-1)[~p] for n, p in protected.items()])
    cost = np.concatenate([np.full(int((~p).sum()), TIME.per_weight[n]) for n, p in protected.items()])
    kept = 300.0 + sum(
        float(importance[n].reshape(-1)[p].sum(dtype=np.float64)) for n, p in protected.items()
    )
    chosen = best_subset(gain, cost, kept, TIME.seconds({n: int(p.sum()) for n, p in protected.items()}))
    assert 0 < int(chosen.sum()) < len(chosen)
    ends = np.cumsum([int((~p).sum()) for p in protected.values()])[:-1]
    for (name, stays), part in zip(protected.items(), np.split(chosen, ends), strict=True):
        expected = stays.copy()
        expected[~stays] = part
        np.testing.assert_array_equal(found[name].reshape(-1), expected)


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("density", [0.001, 0.1, 0.3, 0.4])
def test_the_size_limit_is_met_exactly_where_it_binds(density: float, scope: str, seed: int) -> None:
    state, importance = small_state(seed)
    for model in (TIME, FleetTime((TIME, LinearTime(0.5, dict.fromkeys(SHAPES, 2e-4))))):
        found = reconfigure(
            state, importance, model, fraction=0.3, scope=scope, fixed_gain=0.0, max_density=density
        )
        assert sum(found.counts.values()) == int(density * state.masks.size)


def test_a_protected_set_that_is_too_large_loses_its_smallest_weights(seed: int) -> None:
    state, importance = small_state(seed)
    found = reconfigure(state, importance, TIME, fraction=0.3, max_density=0.1)
    kept = np.concatenate([state.dense(n)[m] for n, m in found.items()])
    gone = np.concatenate([state.dense(n)[m & ~found[n]] for n, m in state.masks.items()])
    assert float(np.abs(kept).min()) >= float(np.abs(gone).max())


def test_extremes_are_defined(seed: int) -> None:
    state, importance = small_state(seed)
    nothing = {n: np.zeros_like(z) for n, z in importance.items()}
    everything = reconfigure(state, nothing, TIME, fraction=0.3)
    assert all(m.all() for m in everything.values())  # 0 >= 0: ties qualify
    empty = state.remask(Masks({n: np.zeros(s, np.bool_) for n, s in SHAPES.items()}))
    free = LinearTime(0.0, dict.fromkeys(SHAPES, 1e-6))
    best_only = reconfigure(empty, importance, free, fraction=0.3)
    assert sum(best_only.counts.values()) == 1
    heavy = reconfigure(state, importance, TIME, fraction=0.3, fixed_gain=1e12)
    assert not (
        heavy["3.weight"] & ~state.masks["3.weight"]
    ).any()  # nothing is worth adding to so good a rest
    dear = LinearTime(1e12, dict.fromkeys(SHAPES, 1e-6))
    assert all(m.all() for m in reconfigure(state, importance, dear, fraction=0.3).values())


def test_a_time_model_of_another_model_is_refused() -> None:
    state, importance = small_state()
    with pytest.raises(ValueError, match=r"no layer '0.weight'; it was made for another model"):
        reconfigure(state, importance, LinearTime(1.0, {"fc.weight": 1.0}), fraction=0.3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_bad_importance_is_refused_by_name(bad: float) -> None:
    state, importance = small_state()
    importance["3.weight"][0, 0] = bad
    with pytest.raises(ValueError, match=r"importance of 3\.weight must be finite and not negative"):
        reconfigure(state, importance, TIME, fraction=0.3)


def test_importance_of_another_shape_is_refused_by_name() -> None:
    state, importance = small_state()
    importance["3.weight"] = importance["3.weight"].T
    with pytest.raises(ValueError, match=r"importance of 3\.weight has shape \(40, 50\), must be \(50, 40\)"):
        reconfigure(state, importance, TIME, fraction=0.3)
