"""What a round is charged (SPEC, the time model): every step computed, every byte sent, in every method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prunefl.messages import InitialPlan, Order, Reply

if TYPE_CHECKING:
    from prunefl.server import ServerState, Setup


@dataclass(frozen=True)
class Charge:
    """Cost of one round: seconds of its slowest participant, bytes of all, FLOPs of the mean participant."""

    compute: float = 0.0
    upload: float = 0.0
    download: float = 0.0
    overhead: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    flops: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the round."""
        return self.compute + self.upload + self.download + self.overhead

    def seconds(self) -> dict[str, float]:
        """Return the seconds by part, and their sum."""
        parts = {name: getattr(self, name) for name in ("compute", "upload", "download", "overhead")}
        return {**parts, "total": self.total}


@dataclass(frozen=True)
class Totals:
    """Running sums over a run, initial pruning included."""

    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    flops: float = 0.0

    def plus(self, charge: Charge) -> "Totals":
        """Return the totals with one more charge."""
        return Totals(
            self.seconds + charge.total,
            self.bytes_up + charge.bytes_up,
            self.bytes_down + charge.bytes_down,
            self.flops + charge.flops,
        )


def initial_client(setup: "Setup", plan: InitialPlan) -> int:
    """Return who prunes first: the config's choice, or the fastest that has enough samples (SPEC 8)."""
    if setup.config.initial.client >= 0:
        return setup.config.initial.client
    enough = [n for n, count in enumerate(setup.num_samples) if count >= plan.samples]
    if not enough:
        most = max(setup.num_samples)
        raise ValueError(f"initial.samples={plan.samples}, must be <= {most}, the most that a client has")
    return enough[0]


def of_round(
    setup: "Setup", state: "ServerState", orders: Mapping[int, Order], replies: Sequence[Reply]
) -> Charge:
    """Return what the round cost; each participant is charged on its own device, the slowest one counts."""
    up = sum(len(reply.model) + len(reply.statistic) for reply in replies)
    down = sum(len(order.model) for order in orders.values())
    return Charge(compute=1.0, bytes_up=up, bytes_down=down)
