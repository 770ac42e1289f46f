"""How long a round lasts as a function of the live weights of each layer: T(M) of the paper, and of fleets.

t_j depends on the layer only, so every T here takes counts, never masks. `LinearTime` is the paper's;
`KinkedTime` knows that a layer runs dense where that is cheaper; `FleetTime` that a round ends with its
slowest device.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prunefl.core.masks import Counts
from prunefl.system.errors import PruneFLError

Line = tuple[float, float]
"""Seconds at no live weight, and seconds per live weight."""


class TimeModel(Protocol):
    """Any monotone T. Nothing else is asked of a user's own time model."""

    def seconds(self, counts: Counts) -> float:
        """Return the seconds of a round with so many live weights in each layer."""
        ...


@dataclass(frozen=True)
class LinearTime:
    """T = c + Σ t·n, the paper's time model: seconds, and seconds per live weight of each layer."""

    constant: float
    per_weight: Mapping[str, float]

    def __post_init__(self) -> None:
        _check_seconds("constant", self.constant)
        for name, slope in self.per_weight.items():
            _check_seconds(f"per_weight[{name}]", slope)

    def seconds(self, counts: Counts) -> float:
        """Return c + Σ t·n in seconds."""
        return self.constant + sum(self.per_weight[name] * n for name, n in counts.items())

    def lines(self, name: str) -> tuple[Line, ...]:
        """Return the one line that is the cost of this layer."""
        return ((0.0, self.per_weight[name]),)


@dataclass(frozen=True)
class KinkedTime:
    """T = c + Σ min over the ways to run a layer; each way is a line in the number of its live weights."""

    constant: float
    ways: Mapping[str, tuple[Line, ...]]

    def __post_init__(self) -> None:
        _check_seconds("constant", self.constant)
        for name, lines in self.ways.items():
            if not lines:
                raise PruneFLError(f"ways[{name}] is empty, must hold at least one line")
            for line in lines:
                _check_seconds(f"ways[{name}]", min(line))

    def seconds(self, counts: Counts) -> float:
        """Return c plus the cheapest way of each layer, in seconds."""
        return self.constant + sum(min(a + b * n for a, b in self.ways[name]) for name, n in counts.items())

    def lines(self, name: str) -> tuple[Line, ...]:
        """Return the lines whose minimum is the cost of this layer."""
        return self.ways[name]


DeviceTime = LinearTime | KinkedTime


@dataclass(frozen=True)
class FleetTime:
    """T = max over devices: a synchronous round lasts as long as its slowest participant."""

    devices: tuple[DeviceTime, ...]

    def __post_init__(self) -> None:
        if not self.devices:
            raise PruneFLError("devices=(), must name at least one")

    def seconds(self, counts: Counts) -> float:
        """Return the seconds of the slowest device."""
        return max(device.seconds(counts) for device in self.devices)


@dataclass(frozen=True)
class LongerTime:
    """Another T, and in every round some seconds more."""

    model: TimeModel
    more: float

    def seconds(self, counts: Counts) -> float:
        """Return the seconds of the other T and those more."""
        return self.model.seconds(counts) + self.more


def lengthen(model: TimeModel, seconds: float) -> TimeModel:
    """Return T with so many seconds more in every round, whatever lives; of the same kind where it is made of lines."""
    if isinstance(model, FleetTime):
        return FleetTime(tuple(_lengthen_device(device, seconds) for device in model.devices))
    if isinstance(model, LinearTime | KinkedTime):
        return _lengthen_device(model, seconds)
    return LongerTime(model, seconds)


def _lengthen_device(device: DeviceTime, seconds: float) -> DeviceTime:
    return replace(device, constant=device.constant + seconds)


def fleet_time(devices: Sequence[DeviceTime], sizes: Counts) -> LinearTime | KinkedTime | FleetTime:
    """Return the simplest T of these devices: those that are never the slowest are left out.

    One device type that is slowest at every size keeps T linear, and with it the exact Algorithm 2.

    Args:
        sizes: weights of each layer, live or not.
    """
    if not devices:
        raise PruneFLError("devices=[], must name at least one")
    slowest: list[DeviceTime] = []
    for device in devices:
        if any(_never_faster(other, device, sizes) for other in slowest):
            continue
        slowest = [other for other in slowest if not _never_faster(device, other, sizes)] + [device]
    return slowest[0] if len(slowest) == 1 else FleetTime(tuple(slowest))


def _never_faster(a: DeviceTime, b: DeviceTime, sizes: Counts) -> bool:
    """Return whether a takes at least b's time whatever lives, so that nobody ever waits for b."""
    # layers add up, so the largest lead that b could have is the sum of the largest in each layer
    leads = (
        max(_cost(b, name, n) - _cost(a, name, n) for n in _bends(a, b, name, size))
        for name, size in sizes.items()
    )
    return b.constant - a.constant + sum(leads) <= 0


def _cost(device: DeviceTime, name: str, live: float) -> float:
    return min(intercept + slope * live for intercept, slope in device.lines(name))


def _bends(a: DeviceTime, b: DeviceTime, name: str, size: int) -> list[float]:
    """Return where the difference of two devices' cost of a layer can be largest: its ends and its kinks."""
    bends = [0.0, float(size)]
    for device in (a, b):
        for one, other in combinations(device.lines(name), 2):
            if one[1] != other[1] and 0 < (crossing := (other[0] - one[0]) / (one[1] - other[1])) < size:
                bends.append(crossing)
    return bends


def _check_seconds(name: str, value: float) -> None:
    if not 0.0 <= value < float("inf"):
        raise PruneFLError(f"{name}={value}, must be finite seconds >= 0")


@dataclass(frozen=True)
class TimeTable:
    """The same T as arrays, for algorithms that take many steps: devices × layers × ways."""

    constant: NDArray[np.float64]
    intercept: NDArray[np.float64]
    slope: NDArray[np.float64]


def table(model: LinearTime | KinkedTime | FleetTime, names: Sequence[str]) -> TimeTable:
    """Return the arrays of a piecewise linear T for these layers, in this order."""
    devices = model.devices if isinstance(model, FleetTime) else (model,)
    ways = max(len(device.lines(name)) for device in devices for name in names)
    lines = np.empty((len(devices), len(names), ways, 2))
    for d, device in enumerate(devices):
        for layer, name in enumerate(names):
            own = device.lines(name)
            lines[d, layer] = [*own, *[own[0]] * (ways - len(own))]  # a repeated way changes no minimum
    return TimeTable(np.array([d.constant for d in devices]), lines[..., 0].copy(), lines[..., 1].copy())


def to_json(model: TimeModel) -> str:
    """Return a time model made of lines as text: the client that prunes first weighs time as the server does."""
    devices = model.devices if isinstance(model, FleetTime) else (model,)
    return json.dumps([_describe(device) for device in devices])


def from_json(text: str) -> TimeModel:
    """Return the time model of a text that `to_json` wrote."""
    devices = tuple(_device(entry) for entry in json.loads(text))
    return devices[0] if len(devices) == 1 else FleetTime(devices)


def _describe(device: TimeModel) -> dict[str, Any]:
    if isinstance(device, LinearTime):
        return {"constant": device.constant, "per_weight": dict(device.per_weight)}
    if isinstance(device, KinkedTime):
        return {"constant": device.constant, "ways": dict(device.ways)}
    raise PruneFLError(
        f"time model {type(device).__name__} cannot be sent; use LinearTime, KinkedTime or FleetTime"
    )


def _device(entry: dict[str, Any]) -> DeviceTime:
    if "per_weight" in entry:
        return LinearTime(entry["constant"], entry["per_weight"])
    ways = {name: tuple((a, b) for a, b in lines) for name, lines in entry["ways"].items()}
    return KinkedTime(entry["constant"], ways)
