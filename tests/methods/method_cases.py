"""A tiny network and a short way to say what a method sees."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from prunefl.config import Config, override
from prunefl.core.masks import Counts, Masks
from prunefl.core.network import Network
from prunefl.core.state import Arrays, SparseState
from prunefl.local.torch_backend.network import network_of
from prunefl.methods import Chosen, Method, Received, Seen, build_method

NAMES = ("0.weight", "3.weight", "5.weight")
SHAPE = (1, 6, 6)


@dataclass(frozen=True)
class CountSeconds:
    """T = 1 s + 1 ms per live weight."""

    def seconds(self, counts: Counts) -> float:
        return 1 + 0.001 * sum(counts.values())


SECONDS = CountSeconds()


def settings(*assignments: str) -> Config:
    return override(Config(), list(assignments))


def make(*assignments: str) -> Method:
    return build_method(settings(*assignments))


def weights_of(network: Network) -> dict[str, Any]:
    """Return copies of the first weights, dense, to train by hand."""
    return {name: network.first.dense(name).copy() for name in network.template.names}


def look(
    method: Method, chosen: Chosen, weights: Arrays, round: int, *, masks: Masks | None = None, **given: Any
) -> Seen:
    """Return what the method sees after a round in which the clients trained `chosen` into these dense weights.

    Args:
        masks: of the combined update, where they are not those chosen.
    """
    filled = {
        "work": method.work(round, chosen.memory, SECONDS),
        "statistic": None,
        "updates": [],
        "seconds": 1.0,
        "memory": chosen.memory,
        "time_model": SECONDS,
    }
    state = SparseState.from_dense(weights, chosen.masks if masks is None else masks)
    return Seen(round=round, state=state, **(filled | given))


def received(state: SparseState, client: int = 0, share: float = 1.0, **numbers: float) -> Received:
    return Received(client, share, state, numbers)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 3)
    )
    return network_of(net, SHAPE, 3)
