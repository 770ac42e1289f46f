"""A tiny task that trains in seconds: which of four corner pixels is bright?"""

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from prunefl import config
from prunefl.config import Config

CLASSES = 4
BATCH_SHAPE = (20, 1, 8, 8)

ONE_ROUND = [
    "model.name=lenet300100",
    "run.method=conventional",
    "run.rounds=1",
    "training.local_steps=1",
    "run.workers=1",
]
"""Settings under which a run on any little data set takes no time."""


def small_data(count: int, seed: int) -> TensorDataset:
    """Return `count` noisy 8x8 images of four classes."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=source)
    images = torch.randn(count, 1, 8, 8, generator=source) * 0.5
    images[torch.arange(count), 0, labels, labels] += 3
    return TensorDataset(images, labels)


def small_clients(count: int = 4, samples: int = 60) -> list[TensorDataset]:
    """Return clients with unequal amounts of data."""
    return [small_data(samples + 7 * n, seed=n + 1) for n in range(count)]


def small_model(normalised: bool = False, dropout: bool = False) -> nn.Module:
    """Return a little convolutional network, with BatchNorm or dropout if wanted."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        layers: list[nn.Module] = [nn.Conv2d(1, 8, 3, padding=1)]
        layers += [nn.BatchNorm2d(8)] if normalised else []
        layers += [nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 32), nn.ReLU()]
        layers += [nn.Dropout(0.3)] if dropout else []
        return nn.Sequential(*layers, nn.Linear(32, CLASSES))


def small_config(**sections: dict[str, object]) -> Config:
    """Return settings under which the task takes a second, with sections changed."""
    tables: dict[str, dict[str, object]] = {
        "run": {"rounds": 8, "eval_every": 2, "workers": 2},
        "training": {"learning_rate": 0.1, "local_steps": 3},
        "pruning": {"interval": 3},
        "initial": {"samples": 40, "interval": 2, "max_passes": 12},
        "data": {"clients": 4},
    }
    for name, table in sections.items():
        tables.setdefault(name, {}).update(table)
    return config.from_tables(tables)


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Return whether two states are equal to the bit."""
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)
