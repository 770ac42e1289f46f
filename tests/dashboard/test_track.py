"""A long curve in little room: nothing that stands out is lost, and pieces put together are the whole."""

from hypothesis import given
from hypothesis import strategies as st

from prunefl.dashboard import track
from prunefl.dashboard.track import Track

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000)


def filled(values: list[float]) -> Track:
    made = Track()
    for place, value in enumerate(values):
        made.add((place, value))
    return made


@given(VALUES)
def test_ends_and_extremes_are_kept_in_bounded_room(values: list[float]) -> None:
    points = filled(values).points()
    assert len(points) <= 4 * track.MOST
    assert points == sorted(points, key=lambda point: point[0])
    assert (points[0], points[-1]) == ((0, values[0]), (len(values) - 1, values[-1]))
    kept = [value for _, value in points]
    assert (min(kept), max(kept)) == (min(values), max(values))
    assert all(values[place] == value for place, value in points)


def test_a_single_fall_among_ten_thousand_rounds_is_seen() -> None:
    values = [0.9] * 10_000
    values[6_543] = 0.1
    assert (6_543, 0.1) in filled(values).points()


def test_a_short_curve_is_kept_whole() -> None:
    values = [float(place % 7) for place in range(track.MOST)]
    assert filled(values).points() == list(enumerate(values))


@given(VALUES, st.lists(st.integers(1, 400), max_size=12))
def test_what_is_sent_piece_by_piece_is_the_whole(values: list[float], steps: list[int]) -> None:
    made, shown, sent = Track(), [], (-1, 0)
    start = 0
    for step in [*steps, len(values)]:
        for place in range(start, min(start + step, len(values))):
            made.add((place, values[place]))
        start = min(start + step, len(values))
        known = sent[1] if sent[0] == made.generation else 0
        shown = shown[:known] + made.stretches(known)
        sent = (made.generation, max(0, len(made) - 1))
    assert [point for stretch in shown for point in stretch] == made.points()
