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
STEPS, RATE = 3, 0.2


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("own_method", None)


def a_config(method="own_method:QFedAvg", **run):
    return small_config(
        run={"rounds": 1, "method": method, "workers": 1, **run},
        training={"local_steps": STEPS, "learning_rate": RATE},
    )


def go(config, clients=2):
    return prunefl.train(small_model(), small_clients(clients), test=small_data(40, seed=9), config=config)


def local_training(client):
    """Return the loss before training, and the weights' change, of one client in dense torch."""
    from prunefl.data import wrap
    from prunefl.local.batches import draw_batches

    model = small_model()
    start = [p.detach().clone() for p in model.parameters()]
    batches = draw_batches(wrap(small_clients(2)[client]), 1, client, a_config())
    batches = [(torch.from_numpy(inputs), torch.from_numpy(labels)) for inputs, labels in batches]
    with torch.no_grad():
        loss = np.mean([float(nn.functional.cross_entropy(model(x), y)) for x, y in batches])
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for inputs, labels in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    return loss, [(w - p.detach()) / RATE for w, p in zip(start, model.parameters(), strict=True)]


def test_q_fedavg_in_one_file_makes_of_two_clients_what_its_paper_says(examples):
    """With q = 1: Σ F Δ over Σ (‖Δ‖² + F / rate)."""
    found = list(go(a_config()).model.parameters())
    (one, first), (two, second) = local_training(0), local_training(1)
    below = sum(float(sum((change**2).sum() for change in changes)) for changes in (first, second))
    below += (one + two) / RATE
    for weight, start, a, b in zip(found, small_model().parameters(), first, second, strict=True):
        expected = start - (one * a + two * b) / below
        np.testing.assert_allclose(weight.detach(), expected.detach(), rtol=1e-4, atol=1e-6)


def test_its_cost_is_charged(examples):
    own, plain = (
        go(a_config(method)).records[1]["flops"] for method in ("own_method:QFedAvg", "conventional")
    )
    assert own == pytest.approx(plain * 4 / 3)


def test_a_client_that_reports_what_cannot_be_is_refused(examples):
    from own_method import QFedAvg

    from prunefl.methods import BadUpdate, Work

    method = QFedAvg(a_config())
    for wrong in ({}, {"loss": 1.0}, {"loss": -1.0, "rate": 0.1}, {"loss": [1.0], "rate": 0.1}):
        with pytest.raises(BadUpdate):
            method.check(Work(), wrong, {})
    method.check(Work(), {"loss": 1.0, "rate": 0.1}, {})


def test_it_learns(examples):
    assert go(a_config(rounds=12, eval_every=12), clients=4).accuracy > 0.7
