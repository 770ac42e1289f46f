"""A tiny network and a short way to say what a pruner sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from prunefl.config import Config, override
from prunefl.methods import Chosen, Seen
from prunefl.rounds.messages import Reply


@dataclass(frozen=True)
class CountSeconds:
    """T = 1 s + 1 ms per live weight."""

    def seconds(self, counts: Mapping[str, int]) -> float:
        return 1 + 0.001 * sum(counts.values())


def reply(client: int = 0, **given: Any) -> Reply:
    return Reply(**({"client": client, "round": 1, "num_samples": 1, "loss": 0.0, "model": b""} | given))


def look(chosen: Chosen, weights: Any, round: int, **given: Any) -> Seen:
    """Return what the pruner sees after a round in which the clients trained `chosen` into `weights`."""
    filled = {
        "masks": chosen.masks,
        "memory": chosen.memory,
        "statistic": None,
        "replies": [],
        "seconds": 1.0,
    }
    return Seen(round=round, weights=weights, time_model=CountSeconds(), **(filled | given))


def settings(*assignments: str) -> Config:
    return override(Config(), list(assignments))


@pytest.fixture
def net() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 3)
    )


NAMES = ("0.weight", "3.weight", "5.weight")
SHAPE = (1, 6, 6)
