"""A method of one's own has all the powers of ours: the example, one file."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import prunefl
from tasks import small_clients, small_config, small_data, small_model

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("own_method", None)


def one_round(method, steps=3):
    config = small_config(
        run={"rounds": 1, "method": method, "workers": 1},
        training={"local_steps": steps, "learning_rate": 0.2},
    )
    return prunefl.train(small_model(), small_clients(1), test=small_data(40, seed=9), config=config)


def fedprox_by_autograd(strength, steps=3):
    """Return the weights after one round of one client, with the proximal term in the loss."""
    from prunefl.data import wrap
    from prunefl.local.batches import draw_batches

    config = small_config(run={"rounds": 1}, training={"local_steps": steps, "learning_rate": 0.2})
    model = small_model()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
    for inputs, labels in draw_batches(wrap(small_clients(1)[0]), 1, 0, config):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(inputs)), torch.from_numpy(labels))
        pull = sum(((p - start[name]) ** 2).sum() for name, p in model.named_parameters())
        (loss + strength / 2 * pull).backward()
        optimiser.step()
    return {name: p.detach().numpy() for name, p in model.named_parameters()}


def test_fedprox_in_one_file_takes_the_steps_that_autograd_takes(examples):
    found = dict(one_round("own_method:FedProx").model.named_parameters())
    expected = fedprox_by_autograd(strength=0.1)
    for name, weight in expected.items():
        np.testing.assert_allclose(found[name].detach().numpy(), weight, rtol=1e-4, atol=1e-6)


def test_it_is_not_plain_training(examples):
    with_pull, without = (one_round(name, steps=5).state for name in ("own_method:FedProx", "conventional"))
    assert any((with_pull.values[name] != without.values[name]).any() for name in without.values)


def test_its_cost_is_charged(examples):
    with_pull, without = (
        one_round(name).records[1]["flops"] for name in ("own_method:FedProx", "conventional")
    )
    live = sum(one_round("conventional").records[1]["live"].values())
    assert with_pull - without == 3 * 2 * live


def test_it_trains_pruned_models_too(examples):
    """Its penalty speaks of live values, whatever holds them: plain, masked or sparse layers."""
    from prunefl.core.masks import Masks
    from prunefl.core.state import SparseState
    from prunefl.local.torch_backend.backend import TorchBackend
    from prunefl.local.torch_backend.network import network_of

    network = network_of(small_model(), (1, 8, 8), 4)
    random = np.random.default_rng(0)
    densities = dict(zip(network.full_masks, (1.0, 0.9, 0.1), strict=True))
    masks = Masks({n: random.random(s) < densities[n] for n, s in network.full_masks.shapes.items()})
    state = network.first.remask(masks)
    backend = TorchBackend(network.module, network.template, "cross_entropy", (20, 1, 8, 8), {})
    backend.load(state)
    samples = small_data(20, seed=1)
    batch = samples.tensors[0].numpy(), samples.tensors[1].numpy()

    def pull(now: SparseState):
        return {name: now.values[name] for name in masks}

    backend.steps([batch], 0.1, penalty=pull)
    pulled = backend.state()
    backend.load(state)
    backend.steps([batch], 0.1)
    plain = backend.state()
    for name in masks:
        expected = plain.values[name] - 0.1 * state.values[name]
        np.testing.assert_allclose(pulled.values[name], expected, rtol=1e-5, atol=1e-6)
