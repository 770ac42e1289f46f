"""Tables that say something else than they should: one value anywhere replaced by one that does not belong there."""

import copy
from typing import Any

from hypothesis import strategies as st

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["\x1b[2J", [], {}, [[]], [-1], {"": None}, ["\x07"], 10**4000]),
)


def list_places(given: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to everything within nested tables."""
    items = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    return [place for key, value in items for place in ((*path, key), *list_places(value, (*path, key)))]


@st.composite
def altered(draw: st.DrawFn, given: Any) -> Any:
    """Draw a copy of the tables with one value replaced or missing."""
    made = copy.deepcopy(given)
    *way, last = draw(st.sampled_from(list_places(made)))
    place = made
    for key in way:
        place = place[key]
    if draw(st.integers(0, 4)):
        place[last] = draw(ODD)
    else:
        del place[last]
    return made
