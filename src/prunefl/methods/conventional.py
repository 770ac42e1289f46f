"""Conventional federated learning: the full model, never pruned (FedAvg)."""

from typing import TYPE_CHECKING

from prunefl.methods import Pruner

if TYPE_CHECKING:
    from prunefl.config import Config


def conventional(config: "Config") -> Pruner:
    """Return FedAvg on the full model."""
    return Pruner()
