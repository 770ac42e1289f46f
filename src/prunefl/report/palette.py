"""One colour and dash for each method and one colour for each part of the time, the same in every report."""

from prunefl.methods import known
from prunefl.report.costs import EVALUATION, INITIAL, PARTS
from prunefl.report.study import Variant

_OTHERS = (
    *(("#d1495b", "#ff7a8a"), ("#1b7ab8", "#5cb8f2"), ("#3a9d5d", "#6fd695"), ("#c07f00", "#f2b63c")),
    *(("#7a4fb0", "#b894ee"), ("#00838f", "#4dd0dd"), ("#8d6e63", "#c9aa9f"), ("#4361ee", "#8ea2ff")),
)
# colour on white, colour on black
PART_COLOURS = dict(
    zip(
        (INITIAL, *PARTS, EVALUATION),
        (
            *(("#8d6e63", "#b59488"), ("#2f6f9f", "#5a9fd0"), ("#e0a030", "#e8b75c")),
            *(("#6aa84f", "#8cc474"), ("#9aa5b1", "#76828f"), ("#7a4fb0", "#b894ee")),
        ),
        strict=True,
    )
)
_DASHES = ("", "8 4", "3 3", "7 3 2 3", "1 3")


def colours(variants: tuple[Variant, ...]) -> dict[str, tuple[str, str, str]]:
    """Return variant key -> (colour on white, colour on black, SVG dash pattern)."""
    chosen: dict[str, tuple[str, str, str]] = {}
    used: set[str] = set()
    own = {name: (*method.colours, method.dash) for name, method in known().items() if method.colours[0]}
    reserved = {own[variant.method][0] for variant in variants if variant.method in own}
    for variant in variants:
        if variant.method in own and variant.method not in used:
            chosen[variant.key] = own[variant.method]
            used.add(variant.method)
            continue
        light = reserved | {pair[0] for pair in chosen.values()}
        free = [pair for pair in _OTHERS if pair[0] not in light] or list(_OTHERS)
        index = len(chosen)
        chosen[variant.key] = (*free[index % len(free)], _DASHES[index % len(_DASHES)])
    return chosen
