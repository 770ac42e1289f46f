"""What a method is: both halves of it. What it does not answer is conventional federated learning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from prunefl.core import average
from prunefl.core.masks import Counts, Masks
from prunefl.core.memory import Memory
from prunefl.core.network import Network
from prunefl.core.randomness import draw_clients
from prunefl.core.state import Arrays, SparseState
from prunefl.core.time_model import TimeModel
from prunefl.local import Local
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config import Config

Numbers = Mapping[str, float | list[float]]


class BadUpdate(PruneFLError):
    """An update that was not asked for or cannot be right: its client is left out of the round."""


@dataclass(frozen=True)
class Work:
    """What clients do in a round, as it travels: flags, numbers and texts. A method adds fields of its own.

    Attributes:
        report: the statistic that comes back beside the model: "" (none), "importance" (not negative) or
            "gradient" (of any sign), for all parameters, in their own shapes.
        own_masks: whether a client may answer under other masks than the server's.
    """

    report: str = ""
    own_masks: bool = False


@dataclass(frozen=True)
class Update:
    """What a client half made of its work.

    Attributes:
        loss: the mean training loss.
        statistic: what `Work.report` asks for; the server takes the p_n-weighted mean.
        numbers: whatever else the server half needs; see `Method.check`.
        memory: what this client shall find again in `Local.memory`.
    """

    state: SparseState
    loss: float
    statistic: Arrays | None = None
    numbers: Numbers = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True)
class Received:
    """A client's update at the server, checked. `share` is p_n: D_n / D over those whose updates were good."""

    client: int
    share: float
    state: SparseState
    numbers: Numbers


@dataclass(frozen=True)
class Combined:
    """One update made of many."""

    state: SparseState
    memory: Memory


@dataclass(frozen=True)
class Seen:
    """What the server half sees after a round's aggregation.

    Attributes:
        round: rounds completed, this one included (1 after the first; 0 after a stage before it).
        statistic: p_n-weighted mean of what the clients reported, or None.
        seconds: simulated seconds that the round took.
        time_model: T(M) of this fleet.
    """

    round: int
    work: Work
    state: SparseState
    statistic: Arrays | None
    updates: Sequence[Received]
    seconds: float
    memory: Memory
    time_model: TimeModel


@dataclass(frozen=True)
class Chosen:
    """The masks to train next. A surviving weight keeps its value, a new one starts at zero, unless `state` says.

    Attributes:
        notes: what the round's record shall say beside the usual, as JSON.
    """

    masks: Masks
    memory: Memory = field(default_factory=Memory)
    state: SparseState | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Steps:
    """Training steps of one cost, for the clock; a forward pass alone is a third of a step.

    Attributes:
        live: live weights of each layer meanwhile.
        full_gradient: whether the gradient of pruned weights was computed, too.
        extra_share: what each step takes beside, as a share of a step of the full model, at full size: it falls with
            the density.
        extra_flops: what it takes beside in floating-point operations.
    """

    count: float
    live: Counts
    full_gradient: bool = False
    extra_share: float = 0.0
    extra_flops: float = 0.0


@dataclass(frozen=True)
class Clients:
    """The clients by number: how many samples each has, and the seconds of a full step on its device.

    Attributes:
        members: numbers of those that take part in the run: who there is to choose from.
    """

    num_samples: Sequence[int]
    step_seconds: Sequence[float]
    members: Sequence[int]


@dataclass(frozen=True)
class Method:
    """A method. Keep no state in it: what changes from round to round is in Memory, which checkpoints hold.

    Class attributes:
        name: by which a config names it; label, colours (on white, on black) and dash: how reports show it.
        place: where it stands in lists.
        needs_density: whether `pruning.density` has to be given.
        finds_density: whether it finds its size by itself; in a comparison, methods that need a density take that.
        keeps_limits: which of density_limit and density_target it keeps.
        averages_itself: whether server.aggregate and server.clip_norm would be without effect.
        prunes: whether the model gets smaller; one that stays whole is trained by what is fastest for it.
        needs_plain_sgd: whether it counts on steps of w − rate·g, as [optimiser] has them by default.
        looks_at_clients: what it has to see of single clients, in words, if it does: privacy refuses it.
        uncovered: what noise does not cover in it, in words, if there is such a thing: privacy.noise refuses it.
        lives_by_first_stage: whether it chooses masks in no other: where privacy skips it, it would prune by nothing.
        first_round: 1, or 0 where something comes before the first round.
        works: the kinds of Work that it gives out.
        tied_to_rounds: in what way its choices depend on `run.rounds`, if they do: such a run cannot be extended. That
            `work` leaves out what no later round would use does not count.
    """

    config: "Config"

    name: ClassVar[str] = ""
    label: ClassVar[str] = ""
    colours: ClassVar[tuple[str, str]] = ("", "")
    dash: ClassVar[str] = ""
    place: ClassVar[int] = 100
    needs_density: ClassVar[bool] = False
    finds_density: ClassVar[bool] = False
    keeps_limits: ClassVar[tuple[str, ...]] = ()
    averages_itself: ClassVar[bool] = False
    prunes: ClassVar[bool] = True
    needs_plain_sgd: ClassVar[bool] = False
    works: ClassVar[tuple[type[Work], ...]] = (Work,)
    tied_to_rounds: ClassVar[str] = ""
    looks_at_clients: ClassVar[str] = ""
    uncovered: ClassVar[str] = ""
    lives_by_first_stage: ClassVar[bool] = False

    @property
    def first_round(self) -> int:
        """Number of the first round."""
        return 1

    def first(self, network: Network) -> Chosen:
        """Return the masks to begin with, chosen at the server before any data is seen."""
        return Chosen(network.full_masks)

    def cohort(self, round: int, clients: Clients) -> Sequence[int]:
        """Return who takes part in a round."""
        config, members = self.config, clients.members
        drawn = draw_clients(config.run.seed, round, len(members), config.training.participants)
        return [members[place] for place in drawn]

    def work(self, round: int, memory: Memory, time_model: TimeModel) -> Work:
        """Return what the clients do in this round."""
        return Work()

    def train(self, work: Work, local: Local) -> Update:
        """Return the client's update: local steps on its own samples."""
        trained = local.steps(local.batches())
        return Update(local.state, trained.loss)

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        """Return what a client computed, for the clock.

        Args:
            live: live weights of each layer that it was sent.
            numbers: those of its update.
        """
        return [Steps(self.config.training.local_steps, live)]

    def check(self, work: Work, numbers: Numbers, masks: Masks) -> None:
        """Refuse, by a BadUpdate, numbers that were not asked for or cannot be true."""
        if numbers:
            raise BadUpdate(f"numbers {', '.join(sorted(numbers))}, which were not asked for")

    def combine(
        self, work: Work, start: SparseState, updates: Sequence[Received], memory: Memory
    ) -> Combined:
        """Return one update made of many, by default as server.aggregate says; all live under the server's masks.

        Args:
            start: the state that the clients were sent.
        """
        server = self.config.server
        combine = average.choose_combine(server.aggregate, server.trim)
        states, weights = [update.state for update in updates], [update.share for update in updates]
        return Combined(average.combine_states(states, weights, combine), memory)

    def next(self, seen: Seen) -> Chosen:
        """Return the masks after a round; `seen.state.masks` itself means no change."""
        return Chosen(seen.state.masks, seen.memory)
