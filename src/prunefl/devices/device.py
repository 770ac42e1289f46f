"""What a device costs: seconds of a training step by layer, dense and sparse, and seconds of a message."""

from collections.abc import Mapping
from dataclasses import dataclass

from prunefl.core.time_model import DeviceTime, KinkedTime, LinearTime
from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class Ways:
    """Seconds of one layer in one step: dense, or sparse with `fixed + per_weight · live`."""

    dense: float
    fixed: float
    per_weight: float

    def seconds(self, live: int) -> float:
        """Return the seconds of the cheaper way."""
        return min(self.dense, self.fixed + self.per_weight * live)


@dataclass(frozen=True)
class LayerCost:
    """A layer in an ordinary step, and in one that computes the full weight gradient for the importance."""

    weights: int
    ordinary: Ways
    importance: Ways


@dataclass(frozen=True)
class Link:
    """A connection: bytes a second up and down, seconds that each message waits."""

    up: float = float("inf")
    down: float = float("inf")
    latency: float = 0.0
    long_message: tuple[int, float] | None = None
    """Bytes and seconds of one long message that was measured apart: long ones travel at their own rate."""

    def upload_seconds(self, num_bytes: int) -> float:
        """Return the seconds of a message to the server."""
        return self.latency + self._transfer(num_bytes, self.up)

    def download_seconds(self, num_bytes: int) -> float:
        """Return the seconds of a message from the server."""
        return self.latency + self._transfer(num_bytes, self.down)

    def _transfer(self, num_bytes: int, rate: float) -> float:
        if self.long_message is None or 2 * num_bytes <= self.long_message[0]:
            return num_bytes / rate
        size, seconds = self.long_message
        if num_bytes >= size:
            return num_bytes * seconds / size
        # a straight line between the measured message and half of it: no jump, and never less for more bytes
        middle = size / 2 / rate
        return middle + (seconds - middle) * (num_bytes - size / 2) / (size / 2)


@dataclass(frozen=True)
class StepMemory:
    """Bytes that a step adds to the program: dense, and sparse as a line in the number of live weights."""

    dense: int
    sparse: int
    per_weight: float

    def density_limit(self, num_bytes: int, weights: int) -> float | None:
        """Return the density up to which a step fits into so many bytes, or None where any does."""
        if self.dense <= num_bytes:
            return None
        live = (num_bytes - self.sparse) / max(self.per_weight, 1e-9)
        if live < 1:
            raise PruneFLError(
                f"time.memory_limit={num_bytes}, must be > {self.sparse}: "
                "what a step of this model takes with no live weight"
            )
        return min(1.0, live / weights)


@dataclass(frozen=True)
class Device:
    """A device as one model finds it.

    Attributes:
        constant: seconds of a step outside the prunable layers.
        full_more: what a step that computes the full weight gradient takes there beyond that.
        layers: parameter name -> its cost, in the model's order.
        unpruned: parameters outside the prunable weights, sent in every round.
        overhead: seconds of a round beside steps and messages.
        jitter: standard deviation of the logarithm of the compute time.
        kinked: whether dense and sparse were measured layer by layer, so that T may bend where they cross.
        memory: of a step; None where it was not measured.
        note: what about these numbers is estimated; empty if nothing is.
        estimated: whether they are guessed from FLOPs, as the device was not measured with this model.
    """

    name: str
    constant: float
    layers: Mapping[str, LayerCost]
    link: Link = Link()
    unpruned: int = 0
    overhead: float = 0.0
    jitter: float = 0.0
    kinked: bool = False
    memory: StepMemory | None = None
    note: str = ""
    estimated: bool = False
    full_more: float = 0.0

    def step_seconds(self, live: Mapping[str, int], full_gradient: bool = False) -> float:
        """Return the seconds of one training step, each layer at the cheaper of dense and sparse."""
        layers = (
            (layer.importance if full_gradient else layer.ordinary, live[n])
            for n, layer in self.layers.items()
        )
        return self._constant(full_gradient) + sum(ways.seconds(count) for ways, count in layers)

    def _constant(self, full_gradient: bool) -> float:
        return self.constant + (self.full_more if full_gradient else 0.0)

    def dense_step_seconds(self) -> float:
        """Return the seconds of one step of the full model: how fast the device is."""
        return self.step_seconds({name: layer.weights for name, layer in self.layers.items()})

    def round_time(
        self, steps: int, bytes_per_weight: float = 4.0, full_gradient: bool = False
    ) -> DeviceTime:
        """Return T: the seconds of a round of so many steps with the model up and down once."""
        kappa = bytes_per_weight / self.link.up + bytes_per_weight / self.link.down
        step = self._constant(full_gradient)
        constant = self.overhead + 2 * self.link.latency + steps * step + kappa * self.unpruned
        ways = {n: layer.importance if full_gradient else layer.ordinary for n, layer in self.layers.items()}
        if not self.kinked:
            constant += steps * sum(way.fixed for way in ways.values())
            return LinearTime(constant, {n: steps * way.per_weight + kappa for n, way in ways.items()})
        lines = {
            n: ((steps * way.fixed, steps * way.per_weight + kappa), (steps * way.dense, kappa))
            for n, way in ways.items()
        }
        return KinkedTime(constant, lines)
