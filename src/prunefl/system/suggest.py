"""The name that somebody who misspelt one will have meant."""

from collections.abc import Collection
from difflib import get_close_matches


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return " (did you mean 'x'?)" for the likeliest of the known names, or nothing where none is near."""
    near = get_close_matches(name, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""
