"""What server and clients say to each other. Engines carry these; nothing else crosses the line."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

State = dict[str, Tensor]
"""Name -> float32 tensor for every parameter and float buffer; prunable weights are zero where pruned."""


@dataclass(frozen=True)
class Ask:
    """What a pruner wants of the clients in one round, beside training.

    Attributes:
        collect: add g*g of every local step, at all positions, to the client's importance sums.
        report: the statistic to upload after this round: "" (none), "importance" (its mean g*g, after
            which its sums start anew) or "gradient" (g at the weights it received, at all positions).
        swap: fraction of each layer's live weights that the client itself exchanges for others before training
            (FedDST); it then answers with masks of its own.
        probe_density: if positive, also report the loss of the received model when magnitude-pruned to this
            density in each layer (online learning).
        dense_update: answer with a full model: trained values where the mask lives, -rate * (sum of the
            local steps' g, taken at the masked weights) where it does not (DPF).
        group_lasso: if positive, weight of a group lasso over the input and output channels of every prunable
            layer, added to the loss of each local step (PruneTrain).
    """

    collect: bool = False
    report: str = ""
    swap: float = 0.0
    probe_density: float = 0.0
    dense_update: bool = False
    group_lasso: float = 0.0


@dataclass(frozen=True)
class InitialPlan:
    """How one client prunes the model before the first round (SPEC 8)."""

    samples: int
    interval: int
    start_factor: float
    tolerance: float
    patience: int
    max_passes: int


@dataclass(frozen=True)
class Order:
    """Server to client: train the packed model, or (with a plan) prune it on your own data first."""

    round: int
    learning_rate: float
    model: bytes
    ask: Ask = field(default_factory=Ask)
    initial: InitialPlan | None = None
    time_model: str = ""
    """The round's time model as JSON, needed for initial pruning only."""


@dataclass(frozen=True)
class Segment:
    """A stretch of initial pruning with one mask: what it cost and what it left.

    Attributes:
        full_steps: how many of the steps computed the gradient of pruned weights, too.
    """

    passes: int
    steps: int
    full_steps: int
    live: Mapping[str, int]
    accuracy: float
    loss: float


@dataclass(frozen=True)
class Reply:
    """Client to server: the trained model and what the server asked for."""

    client: int
    round: int
    num_samples: int
    loss: float
    model: bytes
    statistic: bytes = b""
    start_loss: float = 0.0
    probe_loss: float = 0.0
    seconds: float = 0.0
    """Compute time that the client measured."""
    segments: tuple[Segment, ...] = ()
