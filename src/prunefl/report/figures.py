"""What a figure shows, free of how it is drawn: the page and matplotlib both draw these."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Curve:
    """One line, with its 95 % band where there are seeds enough.

    Attributes:
        variant: the variant's key; it gives the colour and the switch.
        part: what sets it apart from the variant's other lines, such as "seed 1", or empty.
        low, high: the band within the bounds of what is shown, or empty.
        half: half the width of the whole 95 % interval, or empty.
        step: whether the value holds until the next point.
    """

    variant: str
    label: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    half: Numbers = ()
    step: bool = False
    part: str = ""


@dataclass(frozen=True)
class Line:
    """A reference line at a value of y, or along points."""

    label: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class Lines:
    """Curves over one x axis.

    Attributes:
        name: file name without ending, unique in a report.
        tab: short name where several figures share a place, or empty.
        group: figures of one group share a place in the page.
        before: name of the small axis of its own on which points at negative x lie, or empty.
        bounds: the whole range that y can have, which a reader may choose instead of one that fits; or empty.
        log: whether x is drawn logarithmically at first.
        marks: whether each point is marked on its curve.
    """

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    lines: tuple[Line, ...] = ()
    group: str = ""
    tab: str = ""
    points: bool = False
    before: str = ""
    bounds: tuple[float, ...] = ()
    log: bool = False
    marks: bool = False
    kind: str = "lines"


@dataclass(frozen=True)
class Bars:
    """One horizontal stacked bar per variant."""

    name: str
    title: str
    caption: str
    x_label: str
    variants: tuple[str, ...]
    labels: tuple[str, ...]
    parts: tuple[tuple[str, tuple[float, ...]], ...]
    group: str = ""
    tab: str = ""
    kind: str = "bars"


@dataclass(frozen=True)
class Heat:
    """A map of values between 0 and 1: rows are layers, columns rounds."""

    name: str
    title: str
    caption: str
    x_label: str
    rows: tuple[str, ...]
    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    group: str = ""
    tab: str = ""
    kind: str = "heat"


Figure = Lines | Bars | Heat


def thinned(values: Sequence[float], most: int) -> list[int]:
    """Return at most `most` places of the values: ends, and of every stretch between its lowest and its highest.

    Evenly spread places would miss the one round in which a run fell apart.
    """
    if len(values) <= most:
        return list(range(len(values)))
    stretches = most // 2 - 1
    kept = {0, len(values) - 1}
    for stretch in range(stretches):
        start, end = (1 + (len(values) - 2) * at // stretches for at in (stretch, stretch + 1))
        inside = range(start, end)
        kept |= {min(inside, key=values.__getitem__), max(inside, key=values.__getitem__)}
    return sorted(kept)


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` places among `count`, evenly spread, the first and last included."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def file_name(label: str) -> str:
    """Return the label as a safe part of a file name: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


SECONDS = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", 86400.0))
BYTES = (("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
FLOPS = (("MFLOPs", 1e6), ("GFLOPs", 1e9), ("TFLOPs", 1e12), ("PFLOPs", 1e15))
COUNT = (("", 1.0), ("thousand", 1e3), ("million", 1e6))


def unit_for(largest: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Return the largest unit of which there are at least two, or the smallest."""
    return next((unit for unit in reversed(units) if largest >= 2 * unit[1]), units[0])
