"""SNIP and SynFlow keep exactly the weights that their definitions say."""

import copy

import numpy as np
import pytest
import torch
from method_cases import NAMES, SECONDS, look, make, weights_of
from torch import nn

from prunefl import models
from prunefl.core.network import Network
from prunefl.local.torch_backend.network import network_of
from prunefl.methods.synflow import synflow_masks


def ranked(scores: np.ndarray, count: int) -> set[int]:
    return set(np.argsort(-scores, kind="stable")[:count].tolist())


def test_snip_keeps_the_largest_products_of_first_weight_and_mean_gradient(network: Network) -> None:
    method, start = make("run.method=snip", "pruning.density=0.1"), weights_of(network)
    chosen = method.first(network)
    assert method.work(1, chosen.memory, SECONDS).report == "gradient"
    source = np.random.default_rng(0)
    gradients = {name: source.normal(size=w.shape).astype(np.float32) for name, w in start.items()}
    trained = {name: w + np.float32(0.5) for name, w in start.items()}
    after = method.next(look(method, chosen, trained, 1, statistic=gradients))
    scores = np.concatenate([np.abs(start[n] * gradients[n]).ravel() for n in NAMES])
    kept = np.concatenate([after.masks[n].ravel() for n in NAMES])
    assert set(np.flatnonzero(kept).tolist()) == ranked(scores, round(0.1 * scores.size))


def test_snip_runs_the_first_round_in_full_and_then_never_changes(network: Network) -> None:
    method = make("run.method=snip", "pruning.density=0.1")
    chosen = method.first(network)
    assert chosen.masks.density == 1
    later = look(method, chosen, weights_of(network), 2)
    assert method.next(later).masks is later.state.masks
    assert method.work(2, chosen.memory, SECONDS).report == ""


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
    masks = synflow_masks(network_of(net, (5,), 3), 0.25)
    assert masks["0.weight"].tolist() == live_a.astype(bool).tolist()
    assert masks["2.weight"].tolist() == live_b.astype(bool).tolist()


def test_synflow_leaves_the_network_it_is_given_alone(network: Network) -> None:
    before = copy.deepcopy(network.module.state_dict())
    masks = synflow_masks(network, 0.2, steps=3)
    assert all(torch.equal(before[name], value) for name, value in network.module.state_dict().items())
    assert sum(masks.counts.values()) == round(0.2 * (36 + 640 + 30))


def test_synflow_at_one_per_cent_leaves_no_layer_of_vgg11_empty() -> None:
    net = models.build("vgg11", classes=10, input_shape=(3, 32, 32), seed=0)
    masks = synflow_masks(network_of(net, (3, 32, 32), 10), 0.01)
    assert sum(masks.counts.values()) == round(0.01 * 9_747_136)
    assert min(masks.counts.values()) > 0
    # an unbroken path: with |θ| and an input of ones, something still reaches the output
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.abs_()
            parameter.mul_(torch.tensor(masks[name]) if name in masks else 0)
        assert net(torch.ones(1, 3, 32, 32)).sum() > 0


def test_a_fixed_size_method_without_density_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"pruning.density=0.0, must be > 0 .*prunefl compare"):
        make("run.method=snip")
