"""ERK, SET, RigL and FedDST hold their density, and change what they should."""

import pytest
import torch
from pruner_cases import NAMES, SHAPE, look, settings
from torch import nn

from prunefl.core.masks import live_counts
from prunefl.methods import Chosen, build_pruner
from prunefl.methods.erk import erk_counts

COMMON = ("pruning.density=0.2", "pruning.interval=10", "run.rounds=100")
TOTAL = round(0.2 * 706)


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
def test_first_masks_are_erk_of_the_seed(method: str, net: nn.Sequential) -> None:
    chosen = [
        build_pruner(settings(f"run.method={method}", f"run.seed={seed}", *COMMON)).first(net, NAMES, SHAPE)
        for seed in (1, 1, 2)
    ]
    assert live_counts(chosen[0].masks) == {"0.weight": 16, "3.weight": 106, "5.weight": 19}
    assert torch.equal(chosen[0].masks["3.weight"], chosen[1].masks["3.weight"])
    assert not torch.equal(chosen[0].masks["3.weight"], chosen[2].masks["3.weight"])


def start(method: str, net: nn.Sequential) -> tuple[object, Chosen, dict[str, torch.Tensor]]:
    pruner = build_pruner(settings(f"run.method={method}", *COMMON))
    chosen = pruner.first(net, NAMES, SHAPE)
    weights = {
        name: p.detach() * chosen.masks[name] if name in NAMES else p.detach()
        for name, p in net.named_parameters()
    }
    return pruner, chosen, weights


def test_static_erk_never_changes(net: nn.Sequential) -> None:
    pruner, chosen, weights = start("erk", net)
    assert pruner.next(look(chosen, weights, 10)).masks is chosen.masks


def test_set_exchanges_the_smallest_for_random_others_at_the_interval(net: nn.Sequential) -> None:
    pruner, chosen, weights = start("set", net)
    assert pruner.next(look(chosen, weights, 9)).masks is chosen.masks
    moved = pruner.next(look(chosen, weights, 10))
    assert live_counts(moved.masks) == live_counts(chosen.masks)
    # cosine at 10 of 75 rounds: 0.3/2 (1 + cos(2π/15)) = 0.287, of 106 weights 30
    kept = chosen.masks["3.weight"] & moved.masks["3.weight"]
    magnitude = weights["3.weight"].abs()
    order = magnitude[chosen.masks["3.weight"]].sort().values
    assert kept[magnitude > order[29]].all()
    assert kept.sum() < 106
    assert pruner.next(look(chosen, weights, 80)).masks is chosen.masks


def test_rigl_grows_where_the_gradient_is_largest(net: nn.Sequential) -> None:
    pruner, chosen, weights = start("rigl", net)
    assert [pruner.ask(r, chosen.memory).report for r in (9, 10, 80)] == ["", "gradient", ""]
    gradient = {name: torch.zeros_like(weights[name]) for name in weights}
    dead = (~chosen.masks["3.weight"]).nonzero()
    steep = dead[torch.randperm(len(dead), generator=torch.Generator().manual_seed(0))[:30]]
    gradient["3.weight"][steep[:, 0], steep[:, 1]] = -torch.arange(1.0, 31.0)
    moved = pruner.next(look(chosen, weights, 10, statistic=gradient)).masks["3.weight"]
    assert moved[steep[:, 0], steep[:, 1]].all()
    assert moved.sum() == 106


def test_feddst_reprunes_the_union_to_each_layers_first_count(net: nn.Sequential) -> None:
    pruner, chosen, _ = start("feddst", net)
    assert [pruner.ask(r, chosen.memory).swap > 0 for r in (9, 10, 80)] == [False, True, False]
    union = {name: mask | (torch.rand(mask.shape) < 0.5) for name, mask in chosen.masks.items()}
    weights = {name: torch.randn(mask.shape) * mask for name, mask in union.items()}
    after = pruner.next(look(chosen, weights, 10, masks=union))
    assert live_counts(after.masks) == live_counts(chosen.masks)
    for name, mask in after.masks.items():
        assert not (mask & ~union[name]).any()
        assert weights[name][mask].abs().min() >= weights[name][~mask & union[name]].abs().max()
