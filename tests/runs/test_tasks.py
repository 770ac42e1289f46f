"""Other tasks than classification, trained whole: text, several outputs, several inputs, numbers, pixels."""

import itertools
import sys
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import prunefl
from prunefl.core.objectives import Loss
from prunefl.local.torch_backend.losses import criterion_of
from prunefl.runs.records import cost_to_reach, metric_of
from prunefl.system.errors import PruneFLError
from tasks import small_clients, small_config, small_data, small_model


def go(model, clients, test, **sections):
    return prunefl.train(model, clients, test=test, config=small_config(data={"clients": 3}, **sections))


def shared_out(dataset, count=3):
    size = len(dataset) // (count + 1)
    parts = [torch.utils.data.Subset(dataset, range(k * size, (k + 1) * size)) for k in range(count + 1)]
    return parts[1:], parts[0]


def dense(*sizes):
    torch.manual_seed(0)
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def test_regression_is_judged_by_its_mean_absolute_error_and_less_is_better():
    torch.manual_seed(0)
    x = torch.randn(400, 6)
    y = x @ torch.randn(6) + 0.1 * torch.randn(400)
    clients, test = shared_out(TensorDataset(x, y))
    run = go(
        dense(6, 32, 1), clients, test, training={"loss": "mse", "learning_rate": 0.05}, run={"rounds": 20}
    )
    scores = [record["score"] for record in run.records if "score" in record]
    assert run.accuracy is None
    assert run.score == scores[-1] == run.records[-1]["score"] < min(0.4, scores[0])
    with torch.no_grad():
        found = np.abs(run.model(x[:100])[:, 0].numpy() - y[:100].numpy()).mean()
    assert run.score == pytest.approx(found, rel=1e-4)
    metric = metric_of(run.records)
    assert metric.name == "mean_absolute_error"
    reached = cost_to_reach(run.records, scores[-1], metric)
    assert reached["score"] <= scores[-1]
    assert cost_to_reach(run.records, 0.0, metric) is None


def test_multi_label_is_judged_by_f1():
    torch.manual_seed(1)
    x = torch.randn(400, 6)
    y = (x[:, :3] > 0).long()
    clients, test = shared_out(TensorDataset(x, y))
    run = go(
        dense(6, 32, 3),
        clients,
        test,
        training={"loss": "multilabel_bce", "learning_rate": 0.5},
        run={"rounds": 20},
    )
    assert run.score > 0.85
    assert run.records[0]["metric"] == "f1"


class Tokens(nn.Module):
    """Predicts the next of 8 tokens."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 16)
        self.hidden, self.out = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, tokens):
        assert tokens.dtype == torch.int64
        return self.out(F.relu(self.hidden(self.embedding(tokens))))


def test_tokens_stay_whole_numbers_and_text_is_judged_by_its_perplexity():
    torch.manual_seed(2)
    tokens = torch.randint(0, 8, (200, 12))
    clients, test = shared_out(TensorDataset(tokens, (tokens * 3 + 1) % 8))
    run = go(
        Tokens(),
        clients,
        test,
        training={"loss": "token_cross_entropy", "learning_rate": 0.5},
        run={"rounds": 20},
        initial={"samples": 40, "interval": 2, "max_passes": 20},
    )
    assert 1.0 <= run.score < 2.0
    assert run.records[-1]["density"] < 1


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.out = nn.Linear(4, 16), nn.Linear(3, 16), nn.Linear(16, 2)

    def forward(self, left, right):
        return self.out(F.relu(self.left(left) + self.right(right)))


class Parts(Dataset):
    """Samples of two parts, by position or by name."""

    def __init__(self, count, seed, named):
        source = torch.Generator().manual_seed(seed)
        self.left, self.right = (torch.randn(count, size, generator=source) for size in (4, 3))
        self.labels = (self.left[:, 0] + self.right[:, 0] > 0).long()
        self.named = named

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        parts = (
            {"right": self.right[i], "left": self.left[i]} if self.named else (self.left[i], self.right[i])
        )
        return parts, self.labels[i]


@pytest.mark.parametrize("named", [False, True])
def test_a_network_may_take_several_inputs(named):
    torch.manual_seed(3)
    clients = [Parts(60, seed, named) for seed in range(3)]
    run = go(
        Pair(),
        clients,
        Parts(80, 9, named),
        training={"learning_rate": 0.5},
        run={"rounds": 20, "method": "conventional"},
    )
    assert run.accuracy > 0.85


def test_pixels_are_classified_one_by_one():
    torch.manual_seed(4)
    images = torch.randn(80, 1, 8, 8)
    clients, test = shared_out(TensorDataset(images, (images[:, 0] > 0).long()))
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
    run = go(
        model,
        clients,
        test,
        training={"loss": "pixel_cross_entropy", "learning_rate": 0.5},
        run={"rounds": 20},
        initial={"samples": 20, "interval": 2, "max_passes": 12},
    )
    assert run.score > 0.8


def test_whole_numbers_become_floats_where_the_network_wants_them():
    x = torch.randint(0, 9, (100, 6))
    clients, test = shared_out(TensorDataset(x, (x.sum(1) > 24).long()))
    run = go(dense(6, 8, 2), clients, test, run={"method": "conventional", "rounds": 2})
    floats = TensorDataset(x.float(), (x.sum(1) > 24).long())
    clients, test = shared_out(floats)
    again = go(dense(6, 8, 2), clients, test, run={"method": "conventional", "rounds": 2})
    assert run.accuracy == again.accuracy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [(), (1.0, 2.0, 0.5), (1, 2, 0)])
def test_smoothing_and_weights_are_torchs(smoothing, weights):
    outputs, targets = torch.randn(10, 3), torch.randint(0, 3, (10,))
    expected = F.cross_entropy(
        outputs,
        targets,
        torch.tensor(weights, dtype=torch.float32) if weights else None,
        label_smoothing=smoothing,
    )
    assert criterion_of(Loss("cross_entropy", smoothing, weights))(outputs, targets) == expected


@pytest.mark.parametrize(
    ("weights", "rule"),
    [
        ([1, 2], "must be 4 numbers, one for each class"),
        ([0, 0, 0], "must be >= 0, and one of them above"),
        ([1, float("inf"), 1], "must be >= 0, and one of them above"),
    ],
)
def test_class_weights_are_one_for_each_class(weights, rule):
    with pytest.raises(PruneFLError, match=rf"^training.class_weights=\[.*\], {rule}$"):
        prunefl.train(
            small_model(),
            small_clients(),
            test=small_data(60, seed=9),
            config=small_config(training={"class_weights": weights}),
        )


def own_losses():
    module = types.ModuleType("own_losses")
    module.mine = lambda outputs, targets: F.cross_entropy(outputs, targets)
    module.vector = lambda outputs, targets: F.cross_entropy(outputs, targets, reduction="none")
    module.detached = lambda outputs, targets: F.cross_entropy(outputs, targets).detach()
    return module


def test_a_loss_of_ones_own_trains_as_the_same_one_does_and_must_be_a_number(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_losses", own_losses())
    test = small_data(60, seed=9)
    short = {"run": {"rounds": 2, "method": "conventional"}}
    own, usual = (
        prunefl.train(
            small_model(), small_clients(), test=test, config=small_config(training={"loss": loss}, **short)
        )
        for loss in ("own_losses:mine", "cross_entropy")
    )
    assert own.accuracy == usual.accuracy
    for name, rule in [
        ("vector", r"gives shape \(8,\), must give one"),
        ("detached", "has no gradient, must be computed from the outputs"),
    ]:
        config = small_config(training={"loss": f"own_losses:{name}"}, **short)
        with pytest.raises(PruneFLError, match=rf"^training.loss='own_losses:{name}' {rule}"):
            prunefl.train(small_model(), small_clients(), test=test, config=config)


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ("weights", "model: 0.weight holds NaN or infinity before anything is trained"),
        ("samples", "client 2: its first samples hold NaN or infinity, must be numbers"),
        (
            "loss",
            r"training.loss='own_losses:nothing' is nan for the first samples of client 0 before training",
        ),
    ],
)
def test_nan_from_the_start_is_refused_before_anything_is_written(spoilt, message, monkeypatch, tmp_path):
    module = types.ModuleType("own_losses")
    module.nothing = lambda outputs, targets: outputs.sum() * float("nan")
    monkeypatch.setitem(sys.modules, "own_losses", module)
    model, clients, loss = small_model(), small_clients(3), "cross_entropy"
    if spoilt == "weights":
        torch.nn.init.constant_(model[0].weight[0], float("nan"))
    elif spoilt == "samples":
        clients[2].tensors[0][3] = float("nan")
    else:
        loss = "own_losses:nothing"
    config = small_config(data={"clients": 3}, training={"loss": loss})
    with pytest.raises(PruneFLError, match=rf"^{message}") as refusal:
        prunefl.train(model, clients, test=small_data(20, seed=9), config=config, out=tmp_path / "run")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()
