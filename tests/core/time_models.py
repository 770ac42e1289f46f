"""Time models that the tests of both algorithms share."""

import numpy as np

from prunefl.core.time_model import FleetTime, KinkedTime, LinearTime


class Opaque:
    """A time model of which nothing is known but its seconds."""

    def __init__(self, model: LinearTime | KinkedTime | FleetTime) -> None:
        self.model = model

    def seconds(self, counts: dict[str, int]) -> float:
        return self.model.seconds(counts)


class SquareRoot:
    """A curve that is not linear anywhere."""

    def seconds(self, counts: dict[str, int]) -> float:
        return 3.0 + sum((k + 1) * n**0.5 for k, n in enumerate(counts.values()))


def random_fleet(rng: np.random.Generator, names: list[str], scale: float) -> FleetTime:
    """Return up to three devices with up to three ways to run each layer, all in whole numbers of `scale`."""
    devices = []
    for _ in range(int(rng.integers(1, 4))):
        ways = {
            n: tuple(
                (scale * float(rng.integers(0, 40)), float(rng.integers(0, 9)))
                for _ in range(rng.integers(1, 4))
            )
            for n in names
        }
        devices.append(KinkedTime(scale * float(rng.integers(0, 20)), ways))
    return FleetTime(tuple(devices))
