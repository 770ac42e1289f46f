"""Train and prune a network of your own; any nn.Module that gives one logit a class will do.

From Python: python examples/own_model.py
From the command line, in this folder: prunefl run model.name=own_model:residual run.rounds=40
"""

import sys

import torch
from torch import Tensor, nn

import prunefl
from prunefl import data


class Residual(nn.Module):
    """Two convolutions with a shortcut: something no chain of layers can say."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.second(torch.relu(self.first(x)))
        return out


def residual(classes: int, channels: int, width: int = 16) -> nn.Module:
    """Return the network; prunefl fills in those of classes, channels, size and input_shape that are named."""
    stem = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, classes))
    return nn.Sequential(stem, Residual(width), head)


def main(rounds: int = 40) -> None:
    digits = data.load("digits", partition="dirichlet", clients=10, alpha=0.5)
    torch.manual_seed(0)
    run = prunefl.train(
        residual(classes=10, channels=1),
        digits.clients,
        test=digits.test,
        config={
            "run": {"rounds": rounds, "eval_every": 10},
            "training": {"learning_rate": 0.1},
            "pruning": {"interval": 10},
            "initial": {"interval": 5, "max_passes": 30},
        },
    )
    live = sum(int(mask.sum()) for mask in run.masks.values())
    weights = sum(mask.numel() for mask in run.masks.values())
    print(f"accuracy {run.accuracy:.1%} with {live:,} of {weights:,} weights")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
