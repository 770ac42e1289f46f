"""Algorithms 2 and 3 against exhaustive search, sort-and-scan and single steps."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from prunefl.core.greedy import best_counts
from prunefl.core.reconfigure import best_of_layers, best_subset, reconfigure
from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime


def exact_gamma(gain: Fraction, cost: Fraction) -> tuple[int, Fraction]:
    """Return Γ as something that can be compared: nothing at all is worst, something for nothing is best."""
    if cost > 0:
        return 1, gain / cost
    return (2, Fraction(0)) if gain > 0 else (0, Fraction(0))


def exhaustive(gain: list[int], cost: list[int], kept_gain: int, kept_cost: int) -> list[bool]:
    """Return the largest of the subsets with the largest Γ, by trying all of them."""
    best, best_key = None, None
    for subset in itertools.product([False, True], repeat=len(gain)):
        total_gain = Fraction(kept_gain) + sum(g for g, s in zip(gain, subset, strict=True) if s)
        total_cost = Fraction(kept_cost) + sum(c for c, s in zip(cost, subset, strict=True) if s)
        key = (exact_gamma(total_gain, total_cost), sum(subset))
        if best_key is None or key > best_key:
            best, best_key = list(subset), key
    assert best is not None
    return best


def sort_and_scan(gain: Tensor, cost: Tensor, kept_gain: float, kept_cost: float) -> Tensor:
    """Return the paper's Algorithm 2, word for word."""
    gains, costs = gain.double().tolist(), cost.double().tolist()
    ratio = [g / c for g, c in zip(gains, costs, strict=True)]
    delta, seconds = kept_gain, kept_cost
    chosen = [False] * len(gains)
    for j in sorted(range(len(gains)), key=lambda j: -ratio[j]):
        if ratio[j] < delta / seconds:
            break
        chosen[j] = True
        delta, seconds = delta + gains[j], seconds + costs[j]
    return torch.tensor(chosen)


def random_problem(rng: np.random.Generator, high: int) -> tuple[list[int], list[int], int, int]:
    n = int(rng.integers(0, 8))
    lowest_cost = int(rng.integers(0, 2))
    gain, cost = rng.integers(0, high, n).tolist(), rng.integers(lowest_cost, high, n).tolist()
    return gain, cost, int(rng.integers(0, high)), int(rng.integers(0, high) * rng.integers(0, 2))


@pytest.mark.parametrize("high", [2, 3, 5, 60])
def test_best_subset_is_the_exhaustive_best_ties_zeros_and_no_constant_among_them(high: int) -> None:
    rng = np.random.default_rng(high)
    for _ in range(600):
        gain, cost, kept_gain, kept_cost = random_problem(rng, high)
        found = best_subset(torch.tensor(gain), torch.tensor(cost), kept_gain, kept_cost)
        assert found.tolist() == exhaustive(gain, cost, kept_gain, kept_cost), (
            gain,
            cost,
            kept_gain,
            kept_cost,
        )


def test_best_subset_equals_sort_and_scan_on_a_million() -> None:
    generator = torch.Generator().manual_seed(1)
    gain = torch.randn(1_000_000, generator=generator).square()
    cost = 1e-6 * (0.1 + torch.rand(1_000_000, generator=generator))
    found = best_subset(gain, cost, 50_000.0, 3.0)
    assert 1_000 < int(found.sum()) < 999_000
    assert torch.equal(found, sort_and_scan(gain, cost, 50_000.0, 3.0))


def test_equal_ratios_qualify_together_in_spite_of_rounding() -> None:
    gain, cost = torch.full((1_000,), 0.1).double(), torch.full((1_000,), 0.3).double()
    assert best_subset(gain, cost, float(gain[:7].sum()), float(cost[:7].sum())).all()


def layered(
    rng: np.random.Generator, high: int
) -> tuple[dict[str, np.ndarray], LinearTime, int, dict[str, int]]:
    names = [f"layer{k}" for k in range(int(rng.integers(1, 4)))]
    candidates = {n: rng.integers(0, high, int(rng.integers(0, 5))).astype(np.float32) for n in names}
    slopes = {n: float(rng.integers(0, high)) for n in names}
    counts = {n: int(rng.integers(0, 3)) for n in names}
    return candidates, LinearTime(float(rng.integers(0, high)), slopes), int(rng.integers(0, high)), counts


@pytest.mark.parametrize("high", [2, 4, 50])
def test_layer_form_and_algorithm_3_equal_algorithm_2_where_time_is_linear(high: int) -> None:
    rng = np.random.default_rng(high)
    for _ in range(500):
        candidates, time, kept_gain, counts = layered(rng, high)
        gain = torch.from_numpy(np.concatenate(list(candidates.values())))
        cost = torch.tensor([time.per_weight[n] for n, v in candidates.items() for _ in v])
        flat = best_subset(gain, cost, kept_gain, time.seconds(counts))
        sizes = [v.size for v in candidates.values()]
        expected = [int(part.sum()) for part in flat.split(sizes)]
        assert list(best_of_layers(candidates, time, kept_gain, counts, 10**9).values()) == expected
        assert list(best_counts(candidates, time, kept_gain, counts, 10**9).values()) == expected
        assert list(best_counts(candidates, Opaque(time), kept_gain, counts, 10**9).values()) == expected
        for room in range(sum(expected)):
            early = best_of_layers(candidates, time, kept_gain, counts, room)
            assert sum(early.values()) == room
            assert early == best_counts(candidates, time, kept_gain, counts, room)


class Opaque:
    """A time model of which nothing is known but its seconds."""

    def __init__(self, model: LinearTime | KinkedTime | FleetTime) -> None:
        self.model = model

    def seconds(self, counts: dict[str, int]) -> float:
        return self.model.seconds(counts)


def random_fleet(rng: np.random.Generator, names: list[str], scale: float) -> FleetTime:
    devices = []
    for _ in range(int(rng.integers(1, 4))):
        ways = {
            n: tuple(
                (scale * float(rng.integers(0, 40)), float(rng.integers(0, 9)))
                for _ in range(rng.integers(1, 4))
            )
            for n in names
        }
        devices.append(KinkedTime(scale * float(rng.integers(0, 20)), ways))
    return FleetTime(tuple(devices))


@pytest.mark.parametrize("size", [6, 60, 400])
def test_the_compiled_walk_ends_where_the_plain_one_does(size: int) -> None:
    """Whole numbers, so that both ways of adding up are exact and every tie is a tie."""
    rng = np.random.default_rng(size)
    for _ in range(40):
        names = ["a", "b", "c"]
        time = random_fleet(rng, names, scale=size / 20)
        candidates = {n: (rng.exponential(50, size) ** 2).round().astype(np.float32) for n in names}
        counts = {n: int(rng.integers(0, 5)) for n in names}
        kept = float(rng.integers(0, 500))
        expected = best_counts(candidates, Opaque(time), kept, counts, 2 * size)
        assert best_counts(candidates, time, kept, counts, 2 * size) == expected


def test_no_single_weight_more_is_an_improvement() -> None:
    """Theorem 3's condition, for a fleet with kinks and for a curve that is not linear anywhere."""
    rng = np.random.default_rng(3)
    names = ["a", "b", "c"]
    models = [random_fleet(rng, names, 5.0), SquareRoot()]
    for model, trial in itertools.product(models, range(20)):
        candidates = {n: rng.exponential(10 + trial, 50).astype(np.float32) for n in names}
        counts = dict.fromkeys(names, 3)
        taken = best_counts(candidates, model, 100.0, counts, 10**9)
        heads = {n: np.sort(candidates[n])[::-1].astype(float) for n in names}
        now = {n: counts[n] + taken[n] for n in names}
        gain = 100.0 + sum(heads[n][: taken[n]].sum() for n in names)
        gamma = gain / model.seconds(now)
        for n in names:
            for further in heads[n][taken[n] :]:
                assert (gain + further) / model.seconds(now | {n: now[n] + 1}) <= gamma * (1 + 1e-12)


class SquareRoot:
    def seconds(self, counts: dict[str, int]) -> float:
        return 3.0 + sum((k + 1) * n**0.5 for k, n in enumerate(counts.values()))


def small_model(seed: int = 0) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"0.weight": (8, 1, 3, 3), "3.weight": (50, 40), "5.weight": (10, 50)}
    weights = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}
    importance = {n: torch.randn(s, generator=generator).square() for n, s in shapes.items()}
    masks = {n: torch.rand(s, generator=generator) < 0.5 for n, s in shapes.items()}
    return {n: w * masks[n] for n, w in weights.items()}, importance, masks


TIME = LinearTime(1.0, {"0.weight": 0.0, "3.weight": 1e-4, "5.weight": 3e-4})


def test_reconfigure_equals_algorithm_2_on_the_flat_problem() -> None:
    weights, importance, masks = small_model()
    found = reconfigure(weights, importance, masks, TIME, fraction=0.3, fixed_gain=300.0)
    protected = {}
    for name, mask in masks.items():
        order = weights[name].abs().masked_fill(~mask, 1e9).flatten().argsort()
        flat = mask.flatten().clone()
        flat[order[: round(0.3 * int(mask.sum()))]] = False
        protected[name] = flat
    gain = torch.cat([importance[n].flatten()[~p] for n, p in protected.items()])
    cost = torch.cat([torch.full((int((~p).sum()),), TIME.per_weight[n]) for n, p in protected.items()])
    kept = 300.0 + sum(float(importance[n].flatten()[p].double().sum()) for n, p in protected.items())
    chosen = best_subset(gain, cost, kept, TIME.seconds({n: int(p.sum()) for n, p in protected.items()}))
    assert 0 < int(chosen.sum()) < len(chosen)
    for (name, stays), part in zip(
        protected.items(), chosen.split([int((~p).sum()) for p in protected.values()]), strict=True
    ):
        expected = stays.clone()
        expected[~stays] = part
        assert torch.equal(found[name].flatten(), expected)


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("density", [0.001, 0.1, 0.3, 0.4])
def test_the_size_limit_is_met_exactly_where_it_binds(density: float, scope: str) -> None:
    weights, importance, masks = small_model()
    total = sum(m.numel() for m in masks.values())
    for model in (TIME, FleetTime((TIME, LinearTime(0.5, dict.fromkeys(masks, 2e-4))))):
        found = reconfigure(
            weights, importance, masks, model, fraction=0.3, scope=scope, fixed_gain=0.0, max_density=density
        )
        assert sum(int(m.sum()) for m in found.values()) == int(density * total)


def test_a_protected_set_that_is_too_large_loses_its_smallest_weights() -> None:
    weights, importance, masks = small_model()
    found = reconfigure(weights, importance, masks, TIME, fraction=0.3, max_density=0.1)
    kept = torch.cat([weights[n][m] for n, m in found.items()]).abs()
    gone = torch.cat([weights[n][m & ~found[n]] for n, m in masks.items()]).abs()
    assert float(kept.min()) >= float(gone.max())


def test_extremes_are_defined() -> None:
    weights, importance, masks = small_model()
    nothing = {n: torch.zeros_like(z) for n, z in importance.items()}
    everything = reconfigure(weights, nothing, masks, TIME, fraction=0.3)
    assert all(m.all() for m in everything.values())  # 0 >= 0: ties qualify
    empty = {n: torch.zeros_like(m) for n, m in masks.items()}
    free = LinearTime(0.0, dict.fromkeys(masks, 1e-6))
    best_only = reconfigure(weights, importance, empty, free, fraction=0.3)
    assert sum(int(m.sum()) for m in best_only.values()) == 1
    heavy = reconfigure(weights, importance, masks, TIME, fraction=0.3, fixed_gain=1e12)
    assert not (heavy["3.weight"] & ~masks["3.weight"]).any()  # nothing is worth adding to so good a rest
    dear = LinearTime(1e12, dict.fromkeys(masks, 1e-6))
    assert all(m.all() for m in reconfigure(weights, importance, masks, dear, fraction=0.3).values())


def test_a_time_model_of_another_model_is_refused() -> None:
    weights, importance, masks = small_model()
    with pytest.raises(ValueError, match=r"no layer '0.weight'; it was made for another model"):
        reconfigure(weights, importance, masks, LinearTime(1.0, {"fc.weight": 1.0}), fraction=0.3)


def test_bad_importance_is_refused_by_name() -> None:
    weights, importance, masks = small_model()
    importance["3.weight"][0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"importance of 3\.weight must be finite"):
        reconfigure(weights, importance, masks, TIME, fraction=0.3)
