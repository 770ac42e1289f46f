"""Algorithm 3 against Algorithm 2, against single steps, and against Theorem 3."""

import itertools

import numpy as np
import pytest
from time_models import Opaque, SquareRoot, random_fleet

from choice_oracle import best_subset
from prunefl.core import greedy
from prunefl.core.greedy import best_counts
from prunefl.core.reconfigure import best_of_layers
from prunefl.core.time_model import LinearTime

Problem = tuple[dict[str, np.ndarray], LinearTime, int, dict[str, int]]


def layered(rng: np.random.Generator, high: int) -> Problem:
    names = [f"layer{k}" for k in range(int(rng.integers(1, 4)))]
    candidates = {n: rng.integers(0, high, int(rng.integers(0, 5))).astype(np.float32) for n in names}
    slopes = {n: float(rng.integers(0, high)) for n in names}
    counts = {n: int(rng.integers(0, 3)) for n in names}
    return candidates, LinearTime(float(rng.integers(0, high)), slopes), int(rng.integers(0, high)), counts


@pytest.mark.parametrize("high", [2, 4, 50])
def test_layer_form_and_algorithm_3_equal_algorithm_2_where_time_is_linear(
    high: int, rng: np.random.Generator
) -> None:
    stopped_early = 0
    for _ in range(500):
        candidates, time, kept_gain, counts = layered(rng, high)
        gain = np.concatenate(list(candidates.values()))
        cost = np.array([time.per_weight[n] for n, v in candidates.items() for _ in v])
        flat = best_subset(gain, cost, kept_gain, time.seconds(counts))
        ends = np.cumsum([v.size for v in candidates.values()])[:-1]
        expected = [int(part.sum()) for part in np.split(flat, ends)]
        assert list(best_of_layers(candidates, time, kept_gain, counts, 10**9).values()) == expected
        assert list(best_counts(candidates, time, kept_gain, counts, 10**9).values()) == expected
        assert list(best_counts(candidates, Opaque(time), kept_gain, counts, 10**9).values()) == expected
        for room in range(sum(expected)):
            early = best_of_layers(candidates, time, kept_gain, counts, room)
            assert sum(early.values()) == room
            assert early == best_counts(candidates, time, kept_gain, counts, room)
            stopped_early += 1
    assert stopped_early > 100


@pytest.mark.parametrize("size", [6, 60, 400])
def test_the_compiled_walk_ends_where_the_plain_one_does(size: int, rng: np.random.Generator) -> None:
    """Whole numbers, so that both ways of adding up are exact and every tie is a tie."""
    for _ in range(40):
        names = ["a", "b", "c"]
        time = random_fleet(rng, names, scale=max(1, size // 20))
        candidates = {n: (rng.exponential(50, size) ** 2).round().astype(np.float32) for n in names}
        counts = {n: int(rng.integers(0, 5)) for n in names}
        kept = float(rng.integers(0, 500))
        expected = best_counts(candidates, Opaque(time), kept, counts, 2 * size)
        assert best_counts(candidates, time, kept, counts, 2 * size) == expected


def test_how_much_of_a_layer_is_sorted_at_first_decides_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a look at all of it, with ties at the border and layers of zeros."""
    names, looked_again = ["a", "b", "c"], 0
    for look in (1, 2, 7):
        for _ in range(60):
            time = random_fleet(rng, names, scale=4)
            sizes = rng.integers(0, 80, len(names))
            candidates = {
                n: rng.integers(0, 30, size).astype(np.float32) * (rng.random(size) < 0.7)
                for n, size in zip(names, sizes, strict=True)
            }
            counts = {n: int(rng.integers(0, 5)) for n in names}
            kept, room = float(rng.integers(0, 100)), int(rng.integers(0, 200))
            monkeypatch.setattr(greedy, "FIRST_LOOK", 10**6)
            expected = best_counts(candidates, time, kept, counts, room)
            monkeypatch.setattr(greedy, "FIRST_LOOK", look)
            assert best_counts(candidates, time, kept, counts, room) == expected
            looked_again += max(expected.values()) > look
    assert looked_again > 20


def test_no_single_weight_more_is_an_improvement(rng: np.random.Generator) -> None:
    """Theorem 3's condition, for a fleet with kinks and for a curve that is not linear anywhere."""
    names, left = ["a", "b", "c"], 0
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
                left += 1
    assert left > 0
