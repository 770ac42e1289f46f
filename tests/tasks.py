"""A tiny task that trains in seconds: which of four corner pixels is bright?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from prunefl import config, data
from prunefl.config import Config
from prunefl.core.masks import Masks
from prunefl.core.network import Network
from prunefl.data import Federation
from prunefl.local import make_backend
from prunefl.local.torch_backend.network import network_of
from prunefl.methods import build_method
from prunefl.rounds.client import Client
from prunefl.rounds.server import Setup
from prunefl.rounds.setup import prepare

CLASSES = 4
INPUT_SHAPE = (1, 8, 8)
BATCH_SHAPE = (20, *INPUT_SHAPE)

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


def small_network(normalised: bool = False, dropout: bool = False) -> Network:
    """Return what the core knows of the little network."""
    return network_of(small_model(normalised, dropout), INPUT_SHAPE, CLASSES)


def random_masks(network: Network, density: float, seed: int = 3) -> Masks:
    """Return masks that keep about this share of every layer."""
    source = np.random.default_rng(seed)
    return Masks({name: source.random(shape) < density for name, shape in network.template.layers.items()})


def small_config(**sections: Any) -> Config:
    """Return settings under which the task takes a second, with sections changed; [[fleet]] is a list."""
    tables: dict[str, Any] = {
        "run": {"rounds": 8, "eval_every": 2, "workers": 2},
        "training": {"learning_rate": 0.1, "local_steps": 3},
        "pruning": {"interval": 3},
        "initial": {"samples": 40, "interval": 2, "max_passes": 12},
        "data": {"clients": 4},
    }
    for name, table in sections.items():
        tables[name] = table if isinstance(table, list) else {**tables.get(name, {}), **table}
    return config.from_tables(tables)


def small_federation() -> Federation:
    """Return four clients and a test set."""
    clients, test = data.wrap_all(small_clients()), data.wrap(small_data(100, seed=99))
    return Federation(clients, test, CLASSES, INPUT_SHAPE, "own")


def small_setup(federation: Federation, settings: Config, network: Network | None = None) -> Setup:
    """Return what a run of these settings knows before its first round."""
    return prepare(network or small_network(), [len(share) for share in federation.clients], settings)


def small_client(settings: Config, network: Network | None = None, samples: int = 60) -> Client:
    """Return client 2 as it stands ready for orders; layers choose by the usual break-even densities."""
    network = network or small_network()
    backend = make_backend(network, settings, Usual())
    share = data.wrap(small_data(samples, seed=1))
    return Client(2, share, network, backend, build_method(settings), settings)


class Usual(dict[str, float]):
    """Break-even densities of any layer, so that no test depends on a measurement."""

    def __contains__(self, layer: object) -> bool:
        return True

    def __missing__(self, layer: str) -> float:
        return 0.65


def same_bits(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two states, of arrays or tensors, are equal to the bit."""
    return list(one) == list(other) and all(_bits(one[name]) == _bits(other[name]) for name in one)


def _bits(value: Any) -> tuple[object, ...]:
    array = np.asarray(value)
    return array.shape, array.dtype, array.tobytes()
