"""What accuracy is bought with, each in one unit for the whole report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prunefl.report.figures import BYTES, FLOPS, SECONDS, unit_for
from prunefl.report.study import Study

Record = Mapping[str, Any]
Cost = Callable[[Record], float]


def all_bytes(record: Record) -> float:
    """Return the bytes that all clients exchanged since the start."""
    return float(record["total"]["bytes_up"] + record["total"]["bytes_down"])


# tab, name, units, cost of the run up to a record
_KINDS: tuple[tuple[str, str, Sequence[tuple[str, float]], Cost], ...] = (
    ("Time", "Simulated time", SECONDS, lambda record: float(record["total"]["seconds"])),
    ("Round", "Round", (("", 1.0),), lambda record: float(record["round"])),
    ("Bytes", "Bytes exchanged, all clients", BYTES, all_bytes),
    ("FLOPs", "FLOPs per client", FLOPS, lambda record: float(record["total"]["flops"])),
    (
        "Wall time",
        "Wall time of the simulation",
        SECONDS,
        lambda record: float(record["total"].get("wall_seconds", 0.0)),
    ),
)


@dataclass(frozen=True)
class Axis:
    """One kind of cost.

    Attributes:
        unit: in which every figure and table of the report gives it, "" for rounds.
        cost: what the run has cost up to a record, in that unit.
    """

    tab: str
    name: str
    unit: str
    cost: Cost

    @property
    def label(self) -> str:
        """Return the name with its unit, as axes and columns have it."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def axes_of(study: Study) -> tuple[Axis, ...]:
    """Return time, round, bytes, FLOPs and wall time; the last is a machine's, the others are the simulated fleet's."""
    last = [run.rounds[-1] for variant in study.variants for run in variant.runs]
    axes = []
    for tab, name, units, cost in _KINDS:
        unit, scale = unit_for(max(map(cost, last)), units)
        axes.append(Axis(tab, name, unit, _scaled(cost, scale)))
    return tuple(axes)


def _scaled(cost: Cost, scale: float) -> Cost:
    return lambda record: cost(record) / scale
