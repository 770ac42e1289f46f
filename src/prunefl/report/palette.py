"""One colour and dash for each method and one colour for each part of the time, the same in every report."""

import colorsys
import hashlib

from prunefl.methods import known
from prunefl.report.costs import EVALUATION, INITIAL, PARTS
from prunefl.report.study import Variant

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
_SHADES = 6
"""Variants of one method that have a lightness of their own; further ones differ by their dash."""


def colours(variants: tuple[Variant, ...]) -> dict[str, tuple[str, str, str]]:
    """Return variant key -> (colour on white, colour on black, SVG dash pattern); a method keeps its hue."""
    counts: dict[str, int] = {}
    chosen = {}
    for variant in variants:
        number = counts.get(variant.method, 0)
        counts[variant.method] = number + 1
        light, dark, dash = method_colours(variant.method)
        if number:
            dash = _DASHES[number % len(_DASHES)]
            light, dark = (_shaded(colour, number) for colour in (light, dark))
        chosen[variant.key] = (light, dark, dash)
    return chosen


def method_colours(method: str) -> tuple[str, str, str]:
    """Return a method's colours and dash: its own, or for one that has none some that go with its name."""
    of = known().get(method)
    if of is not None and of.colours[0]:
        return (*of.colours, of.dash)
    hue = hashlib.blake2b(method.encode(), digest_size=1).digest()[0] / 256
    return _hex(hue, 0.38, 0.55), _hex(hue, 0.70, 0.65), ""


def _shaded(colour: str, number: int) -> str:
    """Return the colour of a method's further variant: a little along the circle, and lighter and darker in turn."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    turn = (number % _SHADES) * 0.035
    shift = 0.05 * ((number + 1) // 2) * (-1 if number % 2 else 1)
    return _hex((hue + turn) % 1, min(0.85, max(0.2, lightness + shift)), saturation)


def _hex(hue: float, lightness: float, saturation: float) -> str:
    return "#" + "".join(
        f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lightness, saturation)
    )
