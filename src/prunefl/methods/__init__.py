"""A pruning method answers four questions: who prunes first, the first masks, what clients report, the next masks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from prunefl.core.masks import Masks, full_masks
from prunefl.rounds.messages import Ask, InitialPlan, Reply, State
from prunefl.system.plugins import own_function

if TYPE_CHECKING:
    from prunefl.config import Config
    from prunefl.core.time_model import TimeModel


@dataclass(frozen=True)
class Memory:
    """What a pruner remembers between rounds. It is saved with every checkpoint."""

    numbers: Mapping[str, float | int | list[float]] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What a pruner sees after a round's aggregation.

    Attributes:
        round: rounds completed, this one included (1 after the first).
        statistic: p_n-weighted mean of what the clients reported, dense shapes, all parameters, or None.
        seconds: simulated seconds that the round took.
        time_model: T(M) of this fleet.
    """

    round: int
    weights: Mapping[str, Tensor]
    masks: Masks
    statistic: State | None
    replies: Sequence[Reply]
    seconds: float
    memory: Memory
    time_model: "TimeModel"


@dataclass(frozen=True)
class Chosen:
    """The masks to train next. A surviving weight keeps its value, a new one starts at zero,
    unless `weights` gives the values."""

    masks: Masks
    memory: Memory = field(default_factory=Memory)
    weights: State | None = None


class Pruner:
    """A method; what it does not answer itself is answered as in conventional federated learning.

    Keep no state in it: what changes from round to round belongs into Memory.

    Attributes:
        tied_to_rounds: in what way its choices depend on `run.rounds`, if they do: such a run cannot be extended.
            That `ask` leaves out what no later round would use does not count.
    """

    tied_to_rounds: ClassVar[str] = ""

    def initial(self) -> InitialPlan | None:
        """Return how one client prunes before round 1, or None."""
        return None

    def first(self, model: nn.Module, names: Sequence[str], input_shape: Sequence[int]) -> Chosen:
        """Return the masks of round 1, chosen at the server before any data is seen.

        The model holds the initial weights and is the pruner's own copy; `input_shape` is one sample's.
        """
        return Chosen(full_masks(model, names))

    def ask(self, round: int, memory: Memory) -> Ask:
        """Return what the clients shall do in this round (the first is 1) beside training."""
        return Ask()

    def next(self, seen: Seen) -> Chosen:
        """Return the masks after a round; `seen.masks` itself means no change."""
        return Chosen(seen.masks, seen.memory)


def pruners() -> dict[str, "Callable[[Config], Pruner]"]:
    """Return every method by name; adding one is one file and one line."""
    from prunefl.methods.adaptive import further_only, initial_only, prunefl
    from prunefl.methods.conventional import conventional
    from prunefl.methods.dpf import dpf
    from prunefl.methods.erk import erk
    from prunefl.methods.feddst import feddst
    from prunefl.methods.iterative import iterative
    from prunefl.methods.online import online
    from prunefl.methods.prunetrain import prunetrain
    from prunefl.methods.rigl import evolutionary, rigl
    from prunefl.methods.snip import snip
    from prunefl.methods.synflow import synflow
    from prunefl.methods.ticket import ticket

    return {
        "prunefl": prunefl,
        "conventional": conventional,
        "initial-only": initial_only,
        "further-only": further_only,
        "snip": snip,
        "synflow": synflow,
        "iterative": iterative,
        "online": online,
        "erk": erk,
        "set": evolutionary,
        "rigl": rigl,
        "feddst": feddst,
        "dpf": dpf,
        "prunetrain": prunetrain,
        "ticket": ticket,
    }


_KEPT = {
    "prunefl": ("density_limit", "density_target"),
    "further-only": ("density_limit", "density_target"),
    "initial-only": ("density_limit",),
}
"""Limits of size that a method keeps; with any other it would be silently larger."""

_OWN_AVERAGE = ("dpf", "feddst")
"""Methods whose clients answer under other masks than the server's; those are averaged over their holders."""


def build_pruner(config: "Config") -> Pruner:
    """Return the method that `run.method` names: one of ours, or `package.module:function`."""
    known, name = pruners(), config.run.method
    if ":" in name:
        made: Pruner = own_function("run.method", name)(config)
        return made
    if name not in known:
        raise ValueError(f"run.method={name!r}, must be one of {', '.join(known)} or package.module:function")
    for limit in ("density_limit", "density_target"):
        if getattr(config.pruning, limit) and limit not in _KEPT.get(name, ()):
            raise ValueError(
                f"pruning.{limit}={getattr(config.pruning, limit)}, which run.method={name!r} does not keep: leave "
                f"it and time.memory_limit out; in a comparison prunefl:pruning.{limit}=D limits PruneFL alone"
            )
    if name in _OWN_AVERAGE and (config.server.aggregate != "mean" or config.server.clip_norm):
        raise ValueError(
            f"server.aggregate={config.server.aggregate!r} and server.clip_norm={config.server.clip_norm:g}: "
            f"run.method={name!r} averages in its own way, leave both out"
        )
    return known[name](config)
