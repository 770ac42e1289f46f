"""Iterative pruning's schedule, count by count."""

import torch
from pruner_cases import NAMES, SHAPE, look, settings
from torch import nn

from prunefl.core.masks import live_counts
from prunefl.methods import build_pruner
from prunefl.methods.iterative import prunings_done


def test_twenty_prunings_at_equal_spacing_in_the_first_half() -> None:
    rounds = [r for r in range(1, 10001) if prunings_done(r, 10000) > prunings_done(r - 1, 10000)]
    assert rounds == list(range(250, 5001, 250))


def test_a_short_run_still_reaches_its_density_half_way() -> None:
    assert [prunings_done(r, 10) for r in range(11)] == [0, 4, 8, 12, 16, 20, 20, 20, 20, 20, 20]


def test_each_layer_keeps_the_same_share_and_its_largest_weights(net: nn.Sequential) -> None:
    pruner = build_pruner(settings("run.method=iterative", "run.rounds=40", "pruning.density=0.1"))
    weights = {name: p.detach() for name, p in net.named_parameters()}
    chosen = pruner.first(net, NAMES, SHAPE)
    for round in range(1, 41):
        chosen = pruner.next(look(chosen, weights, round))
        share = 0.1 ** (min(round, 20) / 20)
        expected = {name: round_half_even(share * weights[name].numel()) for name in NAMES}
        assert live_counts(chosen.masks) == expected
    for name in NAMES:
        kept, lost = weights[name][chosen.masks[name]].abs(), weights[name][~chosen.masks[name]].abs()
        assert kept.min() >= lost.max()


def round_half_even(value: float) -> int:
    return int(torch.tensor(value, dtype=torch.float64).round())
