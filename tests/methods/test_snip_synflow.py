"""SNIP and SynFlow keep exactly the weights that their definitions say."""

import copy

import numpy as np
import pytest
import torch
from pruner_cases import NAMES, SHAPE, look, settings
from torch import nn

from prunefl import models
from prunefl.core.masks import live_counts, prunable_names
from prunefl.methods import build_pruner
from prunefl.methods.synflow import synflow_masks


def ranked(scores: np.ndarray, count: int) -> set[int]:
    return set(np.argsort(-scores, kind="stable")[:count].tolist())


def test_snip_keeps_the_largest_products_of_first_weight_and_mean_gradient(net: nn.Sequential) -> None:
    pruner = build_pruner(settings("run.method=snip", "pruning.density=0.1"))
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    chosen = pruner.first(net, NAMES, SHAPE)
    assert pruner.ask(1, chosen.memory).report == "gradient"
    gradients = {name: torch.randn_like(w) for name, w in start.items()}
    trained = {name: w + 0.5 for name, w in start.items()}
    after = pruner.next(look(chosen, trained, 1, statistic=gradients))
    scores = np.concatenate([(start[n] * gradients[n]).abs().numpy().ravel() for n in NAMES])
    kept = np.concatenate([after.masks[n].numpy().ravel() for n in NAMES])
    assert set(np.flatnonzero(kept).tolist()) == ranked(scores, round(0.1 * scores.size))


def test_snip_runs_the_first_round_in_full_and_then_never_changes(net: nn.Sequential) -> None:
    pruner = build_pruner(settings("run.method=snip", "pruning.density=0.1"))
    chosen = pruner.first(net, NAMES, SHAPE)
    assert all(mask.all() for mask in chosen.masks.values())
    later = look(chosen, dict(net.named_parameters()), 2)
    assert pruner.next(later).masks is later.masks
    assert pruner.ask(2, chosen.memory).report == ""


def test_synflow_keeps_the_same_weights_as_the_definition_written_by_hand() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
    a, b = (net[i].weight.detach().abs().double().numpy() for i in (0, 2))
    bias = net[0].bias.detach().abs().double().numpy()
    live_a, live_b = np.ones_like(a), np.ones_like(b)
    for step in range(1, 101):
        # R = 1' B (A 1 + bias) + ...: θ ∂R/∂θ of A_ji is a_ji * (column sum j of B), of B_kj b_kj * h_j
        hidden = (a * live_a).sum(1) + bias
        scores = np.concatenate(
            [(a * live_a * (b * live_b).sum(0)[:, None]).ravel(), (b * live_b * hidden).ravel()]
        )
        scores[np.concatenate([live_a.ravel(), live_b.ravel()]) == 0] = -1
        keep = np.zeros(48)
        keep[list(ranked(scores, round(48 * 0.25 ** (step / 100))))] = 1
        live_a, live_b = keep[:30].reshape(6, 5), keep[30:].reshape(3, 6)
    masks = synflow_masks(net, ["0.weight", "2.weight"], (5,), 0.25)
    assert masks["0.weight"].numpy().tolist() == live_a.astype(bool).tolist()
    assert masks["2.weight"].numpy().tolist() == live_b.astype(bool).tolist()


def test_synflow_leaves_the_model_it_is_given_alone(net: nn.Sequential) -> None:
    before = copy.deepcopy(net.state_dict())
    masks = synflow_masks(net, NAMES, SHAPE, 0.2, steps=3)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert sum(live_counts(masks).values()) == round(0.2 * (36 + 640 + 30))


def test_synflow_at_one_per_cent_leaves_no_layer_of_vgg11_empty() -> None:
    net = models.build("vgg11", classes=10, input_shape=(3, 32, 32), seed=0)
    masks = synflow_masks(net, prunable_names(net), (3, 32, 32), 0.01)
    counts = live_counts(masks)
    assert sum(counts.values()) == round(0.01 * 9_747_136)
    assert min(counts.values()) > 0
    # an unbroken path: with |θ| and an input of ones, something still reaches the output
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.abs_()
            parameter.mul_(masks.get(name, 0))
        assert net(torch.ones(1, 3, 32, 32)).sum() > 0


def test_a_fixed_size_method_without_density_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"pruning.density=0.0, must be > 0 .*prunefl compare"):
        build_pruner(settings("run.method=snip"))
