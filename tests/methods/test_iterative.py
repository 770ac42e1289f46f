"""Iterative pruning's schedule, count by count."""

import numpy as np
import pytest
from method_cases import NAMES, look, make, weights_of

from prunefl.core.network import Network
from prunefl.methods.iterative import count_prunings


def test_twenty_prunings_at_equal_spacing_in_the_first_half() -> None:
    rounds = [r for r in range(1, 10001) if count_prunings(r, 10000) > count_prunings(r - 1, 10000)]
    assert rounds == list(range(250, 5001, 250))


def test_a_short_run_still_reaches_its_density_half_way() -> None:
    assert [count_prunings(r, 10) for r in range(11)] == [0, 4, 8, 12, 16, 20, 20, 20, 20, 20, 20]


def test_a_run_that_is_cut_short_sees_what_the_whole_had_then(network: Network) -> None:
    cut = make("run.method=iterative", "run.rounds=5", "pruning.horizon=40", "pruning.density=0.1")
    whole = make("run.method=iterative", "run.rounds=40", "pruning.density=0.1")
    chosen = [method.first(network) for method in (cut, whole)]
    for round in range(1, 6):
        chosen = [
            method.next(look(method, one, weights_of(network), round))
            for method, one in zip((cut, whole), chosen, strict=True)
        ]
        assert chosen[0].masks == chosen[1].masks
    assert chosen[0].masks.density == pytest.approx(0.1 ** (5 / 20), rel=0.02)


def test_each_layer_keeps_the_same_share_and_its_largest_weights(network: Network) -> None:
    method = make("run.method=iterative", "run.rounds=40", "pruning.density=0.1")
    weights, chosen = weights_of(network), method.first(network)
    for round in range(1, 41):
        chosen = method.next(look(method, chosen, weights, round))
        share = 0.1 ** (min(round, 20) / 20)
        # halves to the even number
        assert chosen.masks.counts == {name: int(np.rint(share * weights[name].size)) for name in NAMES}
    for name in NAMES:
        size, mask = np.abs(weights[name]), chosen.masks[name]
        assert size[mask].min() >= size[~mask].max()
