"""Conventional federated learning: the full model, never pruned (FedAvg)."""

from prunefl.methods.base import Method


class Conventional(Method):
    """FedAvg on the full model: all that a method does by default."""

    name = "conventional"
    label = "Conventional FL"
    colours, dash, place = ("#2f3e55", "#c9d4e6"), "8 4", 1
    prunes = False
