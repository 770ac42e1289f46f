"""The one exception of the wire format, so that a receiver has one thing to catch."""

from typing import Literal, get_args

from prunefl.system.errors import PruneFLError

Reason = Literal[
    "truncated", "corrupted", "foreign", "version", "model", "digest", "counts", "values", "argument"
]
REASONS: tuple[str, ...] = get_args(Reason)


class WireError(PruneFLError):
    """A message, or what was to be packed into one, is refused; nothing of it was applied.

    `reason` is for programs: "digest" tells a receiver to ask for the whole state, for instance.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
