"""stub"""

from dataclasses import dataclass
from prunefl.time_model import LinearTime


@dataclass(frozen=True)
class Device:
    name: str


def fleet(config, model, input_shape, names):
    return [Device("stub")] * config.data.clients


def round_time(fleet, config, names=()):
    class P(dict):
        def __missing__(self, k):
            return 6e-6

    return LinearTime(6.0, {n: 6e-6 for n in names})
