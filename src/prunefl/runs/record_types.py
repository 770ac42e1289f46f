"""The schema of a run's records, a type for each kind.

docs/records.md says what each field means; a test holds runs, types and page together.
"""

from typing import Literal, NotRequired, TypedDict


class RunRecord(TypedDict):
    """The first line: what run this is."""

    kind: Literal["run"]
    version: str
    method: str
    seed: int
    config_digest: str
    model: str
    data: str
    cut: str
    prunable: int
    parameters: int
    layers: dict[str, int]
    live: dict[str, int]
    clients: int
    devices: list[str]
    device_notes: dict[str, str]
    shapes: dict[str, list[int]]
    started: str
    machine: str
    metric: NotRequired[str]
    backend: NotRequired[str]
    own_code: NotRequired[str]


class RoundSeconds(TypedDict):
    """Simulated seconds of the participant that everybody waited for, by what they were spent on."""

    compute: float
    download: float
    upload: float
    overhead: float
    total: float


class RunTotals(TypedDict):
    """What the run has cost up to here, initial pruning included."""

    seconds: float
    bytes_up: int
    bytes_down: int
    flops: float
    wall_seconds: float


class CostRecord(TypedDict):
    """What a round and initial pruning both say: the cost, and the size of what came of it."""

    seconds: RoundSeconds
    bytes_up: int
    bytes_down: int
    flops: float
    wall_seconds: float
    density: float
    live: NotRequired[dict[str, int]]
    total: RunTotals


class Segment(TypedDict):
    """A stretch of initial pruning with one mask."""

    passes: int
    steps: int
    full_steps: int
    accuracy: float
    loss: float
    stable: int
    gamma: float
    lost: float
    live: dict[str, int]


class InitialRecord(CostRecord):
    """What came before the first round."""

    kind: Literal["initial"]
    client: int
    segments: NotRequired[list[Segment]]
    ended_by: NotRequired[str]
    bounded: NotRequired[dict[str, str]]


class LayerChange(TypedDict):
    """What a reconfiguration did to a layer."""

    cut: int
    grown: int
    seconds: float
    saved: float
    gain: float
    lost: float


class Reconfiguration(TypedDict):
    """Why masks were chosen, by the importance that they were chosen by."""

    gamma: float
    seconds: float
    lost: float
    layers: dict[str, LayerChange]


class EvaluationRecord(TypedDict):
    """How the model after a round does at clients, on samples that they hold out."""

    clients: int
    samples: int
    accuracy: float
    loss: float
    client_accuracy: float
    worst_tenth: NotRequired[float]
    by_client: dict[str, list[int]]
    personal: NotRequired[dict[str, list[int]]]
    personal_accuracy: NotRequired[float]
    refused: dict[str, str]
    seconds: RoundSeconds
    bytes_up: int
    bytes_down: int
    flops: float


class SecureRecord(TypedDict):
    """What the secure sum of a round took."""

    clients: int
    exchanges: int
    setup_bytes: int
    repeats: int
    beyond: float


class PrivacyRecord(TypedDict):
    """What all rounds so far have told of one client at most, and the clip of the next."""

    epsilon: float
    delta: float
    clip: float


class RoundRecord(CostRecord):
    """One round."""

    kind: Literal["round"]
    round: int
    loss: NotRequired[float]
    privacy: NotRequired[PrivacyRecord]
    collected: bool
    reconfigured: bool
    reconfiguration: NotRequired[Reconfiguration]
    secure: NotRequired[SecureRecord]
    predicted_seconds: float
    clients: list[int]
    refused: dict[str, str]
    bounded: NotRequired[dict[str, str]]
    left_out: NotRequired[dict[str, str]]
    accuracy: NotRequired[float]
    score: NotRequired[float]
    test_loss: NotRequired[float]
    evaluation: NotRequired[EvaluationRecord]


class EndRecord(TypedDict):
    """The last line of a finished run."""

    kind: Literal["end"]
    rounds: int
    accuracy: float | None
    mean_accuracy: NotRequired[float | None]
    score: NotRequired[float]
    best_round: NotRequired[int]
    best_score: NotRequired[float]
    density: float
