"""Train on data of your own: one torch Dataset a client, or a function that a config names.

From Python: python examples/own_data.py
From the command line, in this folder: prunefl run data.name=own_data:sensors \\
    model.name=own_data:perceptron initial.samples=100 run.rounds=60
Images in folders, a CSV index and NumPy files need no code at all: see docs/data.md.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import prunefl
from prunefl.data import Federation, wrap, wrap_all

CLASSES, CHANNELS, LENGTH = 4, 3, 32


class Recordings(Dataset[tuple[Tensor, int]]):
    """Waves that one sensor recorded. Their frequency is the class; each sensor has its own loudness."""

    def __init__(self, sensor: int, samples: int) -> None:
        self.generator = torch.Generator().manual_seed(sensor)
        self.labels = torch.randint(CLASSES, (samples,), generator=self.generator)
        time = torch.linspace(0, 6.28, LENGTH)
        phase = torch.rand(samples, CHANNELS, 1, generator=self.generator) * 6.28
        waves = torch.sin((1 + self.labels)[:, None, None] * time + phase)
        noise = torch.randn(waves.shape, generator=self.generator)
        self.waves = waves * (0.5 + sensor % 3) + 0.3 * noise

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.waves[i], int(self.labels[i])


def sensors(folder: Path | None = None) -> Federation:
    """Return eight sensors and a test set; `folder` is the config's data.dir."""
    clients = wrap_all([Recordings(sensor, 120) for sensor in range(8)])
    return Federation(clients, wrap(Recordings(99, 400)), CLASSES, (CHANNELS, LENGTH), "sensors")


def perceptron(classes: int = CLASSES) -> nn.Module:
    """Return a network for the recordings."""
    return nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS * LENGTH, 128), nn.ReLU(), nn.Linear(128, classes))


def main(rounds: int = 60) -> None:
    torch.manual_seed(0)
    run = prunefl.train(
        perceptron(),
        [Recordings(sensor, 120) for sensor in range(8)],
        test=Recordings(99, 400),
        config={
            "run": {"rounds": rounds, "eval_every": 10},
            "training": {"learning_rate": 0.2},
            "pruning": {"interval": 10},
            "initial": {"samples": 100, "interval": 5, "max_passes": 50},
        },
    )
    print(f"accuracy {run.accuracy:.1%}, {int(sum(m.sum() for m in run.masks.values())):,} weights alive")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
