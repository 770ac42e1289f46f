"""One colour and dash for each method and one colour for each part of the time, the same in every report."""

from prunefl.report.costs import INITIAL, PARTS
from prunefl.report.study import Variant

# PruneFL stands out; neighbours differ in hue, lightness and dash, for colour-blind eyes and grey print
_METHODS = {
    "prunefl": ("#d1495b", "#ff7a8a", ""),
    "conventional": ("#2f3e55", "#c9d4e6", "8 4"),
    "snip": ("#1b7ab8", "#5cb8f2", ""),
    "synflow": ("#3a9d5d", "#6fd695", "7 3 2 3"),
    "online": ("#c07f00", "#f2b63c", "3 3"),
    "iterative": ("#7a4fb0", "#b894ee", "9 3"),
    "initial-only": ("#e08a6d", "#ffb199", "4 3"),
    "further-only": ("#a3315a", "#f29bb9", "9 3 2 3"),
    "feddst": ("#00838f", "#4dd0dd", "6 2"),
    "rigl": ("#6d7f1f", "#b9cc5c", "2 2"),
    "set": ("#8d6e63", "#c9aa9f", "5 2 1 2"),
    "erk": ("#5f6b7a", "#9fb0c3", "1 3"),
    "dpf": ("#b5179e", "#f072dd", "10 4 2 4"),
    "prunetrain": ("#4361ee", "#8ea2ff", "4 4"),
}
_OTHERS = (
    *(("#d1495b", "#ff7a8a"), ("#1b7ab8", "#5cb8f2"), ("#3a9d5d", "#6fd695"), ("#c07f00", "#f2b63c")),
    *(("#7a4fb0", "#b894ee"), ("#00838f", "#4dd0dd"), ("#8d6e63", "#c9aa9f"), ("#4361ee", "#8ea2ff")),
)
# colour on white, colour on black
PART_COLOURS = dict(
    zip(
        (INITIAL, *PARTS),
        (
            *(("#8d6e63", "#b59488"), ("#2f6f9f", "#5a9fd0"), ("#e0a030", "#e8b75c")),
            *(("#6aa84f", "#8cc474"), ("#9aa5b1", "#76828f")),
        ),
        strict=True,
    )
)
_DASHES = ("", "8 4", "3 3", "7 3 2 3", "1 3")


def colours(variants: tuple[Variant, ...]) -> dict[str, tuple[str, str, str]]:
    """Return variant key -> (colour on white, colour on black, SVG dash pattern)."""
    chosen: dict[str, tuple[str, str, str]] = {}
    used: set[str] = set()
    reserved = {_METHODS[variant.method][0] for variant in variants if variant.method in _METHODS}
    for variant in variants:
        if variant.method in _METHODS and variant.method not in used:
            chosen[variant.key] = _METHODS[variant.method]
            used.add(variant.method)
            continue
        light = reserved | {pair[0] for pair in chosen.values()}
        free = [pair for pair in _OTHERS if pair[0] not in light] or list(_OTHERS)
        index = len(chosen)
        chosen[variant.key] = (*free[index % len(free)], _DASHES[index % len(_DASHES)])
    return chosen
