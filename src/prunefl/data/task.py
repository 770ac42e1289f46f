"""What everybody in a run must mean by a label and a sample: classes by name, and one shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from prunefl.core.randomness import Ints
from prunefl.system.errors import PruneFLError

SHOWN = 8
"""Of a longer list of classes the first few are shown: a refusal is one line."""


@dataclass(frozen=True)
class Task:
    """The classes, by name and in order, the shape of a sample and its scaling; empty where nothing is agreed yet."""

    classes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    scaling: str = ""


def counted_names(classes: int) -> tuple[str, ...]:
    """Return the names of classes that have none: their numbers."""
    return tuple(map(str, range(classes)))


def number_classes(own: Sequence[str], agreed: Sequence[str], who: str) -> Ints:
    """Return the agreed number of each own class, int64 (len(own),); one that nobody agreed to is refused.

    Args:
        who: whose classes these are, for the message: a folder, a file.
    """
    numbers = {name: number for number, name in enumerate(agreed)}
    unknown = next((name for name in own if name not in numbers), None)
    if unknown is not None:
        near = get_close_matches(unknown, agreed, 1) or get_close_matches(
            unknown.lower(), [n.lower() for n in agreed], 1
        )
        do = f"did you mean {near[0]!r}?" if near else "add it to data.classes, or leave it out"
        raise PruneFLError(
            f"class {unknown!r} of {who} is not one of the run's ({do}): "
            f"the run has {spoken(agreed)}; {who} has {spoken(own)}"
        )
    return np.array([numbers[name] for name in own], np.int64)


def refuse_shape(own: Sequence[int], agreed: Sequence[int], who: str) -> None:
    """Refuse samples of another shape than was agreed on."""
    if agreed and tuple(own) != tuple(agreed):
        swapped = len(own) == 3 and (own[2], own[0], own[1]) == tuple(agreed)
        do = "channels come first: (sample, channel, height, width)" if swapped else "data.shape says so"
        raise PruneFLError(f"{who} has samples of shape {list(own)}, the run has {list(agreed)}: {do}")


def spoken(names: Sequence[str]) -> str:
    """Return class names as a person lists them."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
