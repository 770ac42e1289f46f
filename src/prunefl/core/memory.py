"""What a method remembers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prunefl.core.state import Arrays


@dataclass(frozen=True)
class Memory:
    """What a method remembers from round to round, at the server or at a client; saved with every checkpoint."""

    numbers: Mapping[str, float | list[float]] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def number(self, name: str) -> float:
        """Return one of the numbers; 0 if it is not there."""
        value = self.numbers.get(name, 0.0)
        assert not isinstance(value, list)
        return value
