"""A growing curve in bounded room: stretches of rounds of which first, lowest, highest and last point are kept."""

from collections.abc import Sequence

Point = tuple[float, ...]
"""Places on the axes, then the value."""

MOST = 150
"""Stretches before neighbours are merged; a curve is told by at most four points of each."""


class Track:
    """Points as they come. A page that has the curve up to a stretch needs only what is new from there on.

    Attributes:
        generation: another number means that earlier stretches have changed, and all have to be sent again.
    """

    def __init__(self, generation: int = 0) -> None:
        self.generation = generation
        self._stretches: list[list[Point]] = []
        self._width = 1
        self._filled = 0

    def __len__(self) -> int:
        return len(self._stretches)

    @property
    def last(self) -> Point | None:
        """Return the newest point."""
        return self._stretches[-1][-1] if self._stretches else None

    def add(self, point: Point) -> None:
        """Append a point."""
        if not self._stretches or self._filled == self._width:
            if len(self._stretches) == MOST:
                self._merge()
            if not self._stretches or self._filled == self._width:
                self._stretches.append([])
                self._filled = 0
        self._stretches[-1] = _kept([*self._stretches[-1], point])
        self._filled += 1

    def _merge(self) -> None:
        """Make one stretch of every two."""
        pairs = [self._stretches[at : at + 2] for at in range(0, len(self._stretches), 2)]
        # of an odd number the last has no neighbour yet: it is half full
        self._filled = self._width * len(pairs[-1])
        self._width *= 2
        self._stretches = [_kept([point for stretch in pair for point in stretch]) for pair in pairs]
        self.generation += 1

    def stretches(self, start: int = 0) -> list[list[Point]]:
        """Return the stretches from one on."""
        return self._stretches[start:]

    def points(self) -> list[Point]:
        """Return all points that are kept, in order."""
        return [point for stretch in self._stretches for point in stretch]


def _kept(points: Sequence[Point]) -> list[Point]:
    """Return first, lowest, highest and last, each once, in order."""
    if len(points) <= 2:
        return list(points)
    places = range(len(points))
    low = min(places, key=lambda place: points[place][-1])
    high = max(places, key=lambda place: points[place][-1])
    return [points[place] for place in sorted({0, low, high, len(points) - 1})]
