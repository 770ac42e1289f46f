"""What server and clients say to each other. Engines carry these; nothing else crosses the line."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_type_hints

from prunefl.methods.base import Method, Numbers, Work


@dataclass(frozen=True)
class Order:
    """Server to client: do this work with the packed model.

    Attributes:
        serial, secure: with privacy.secure, of which sum this is a step, and what this client is told of it.
        clip: largest norm of the change that may be sent back (privacy.noise); 0: any.
    """

    round: int
    learning_rate: float
    model: bytes
    work: Work
    serial: int = 0
    secure: bytes = b""
    clip: float = 0.0


@dataclass(frozen=True)
class EvaluationWork(Work):
    """Train nothing for the server: say how the model does on the samples held out.

    Attributes:
        final: whether it is the model that the run delivers.
        personal_steps: steps that the client trains it for itself; how that does is said, too.
    """

    final: bool = False
    personal_steps: int = 0


@dataclass(frozen=True)
class SecureWork(Work):
    """Compute nothing: take a step of a secure sum (`prunefl.privacy`).

    Attributes:
        step: what it is above all, for people: "introduce", "share" or "unmask".
        purpose: what it is the sum of.
    """

    step: str = ""
    purpose: str = ""


@dataclass(frozen=True)
class Reply:
    """Client to server: the packed update, or how the model does.

    Attributes:
        num_samples: how many samples the client trains on.
        seconds: compute time that the client measured.
        held_out: how many samples it said it holds out, when it came.
        scores: what `EvaluationWork` asks for, packed (`rounds.scores`).
        secure: with privacy.secure all of this, under masks, or a step of the sum; then the rest is empty.
    """

    client: int
    round: int
    num_samples: int
    loss: float
    model: bytes
    statistic: bytes = b""
    numbers: Numbers = field(default_factory=dict)
    seconds: float = 0.0
    held_out: int = 0
    scores: bytes = b""
    secure: bytes = b""


def describe_work(work: Work) -> dict[str, Any]:
    """Return the work as JSON: its kind and its fields."""
    return {"kind": type(work).__name__, **asdict(work)}


def parse_work(method: Method, entry: Any) -> Work:
    """Return the work that a JSON entry describes, of a kind that the method has or every client knows."""
    if not isinstance(entry, Mapping):
        raise ValueError("work: must be a table")
    kinds: dict[str, type[Work]] = {
        kind.__name__: kind for kind in (*method.works, EvaluationWork, SecureWork)
    }
    kind = kinds.get(str(entry.get("kind")))
    if kind is None:
        raise ValueError(f"work of kind {entry.get('kind')!r}, must be one of {', '.join(kinds)}")
    fields, hints = {name: entry[name] for name in entry if name != "kind"}, get_type_hints(kind)
    if fields.keys() != hints.keys():
        raise ValueError(
            f"{kind.__name__}: must have {', '.join(hints)}; are both sides of the same version?"
        )
    for name, value in fields.items():
        exact = type(value) is hints[name] or (hints[name] is float and type(value) is int)
        if not exact:
            raise ValueError(f"{kind.__name__}.{name}={value!r}, must be {hints[name].__name__}")
    return kind(**fields)
