"""The report as one self-contained HTML page; the only home of jinja2."""

import base64
import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from prunefl.report.figures import Figure, Lines
from prunefl.report.headline import facts_of, rankings_of, title_of, verdict_of
from prunefl.report.palette import PART_COLOURS, colours
from prunefl.report.provenance import made_of, own_settings, repeat_command, shared_settings
from prunefl.report.study import Study
from prunefl.report.tables import Table

SCRIPTS = ("numbers.js", "charts.js", "heat.js", "reading.js", "theme.js", "tabs.js", "report.js")
STYLES = ("base.css", "report.css")
PADDING = 40
"""Pixels of a figure's width that its frame takes."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A place in the page: figures that share it, and tables."""

    anchor: str
    title: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


def page(
    study: Study,
    sections: Sequence[Section],
    targets: Sequence[float],
    title: str,
    made_by: str,
    drawn: Sequence[str],
) -> str:
    """Return the page as text; with links to the figures' files in the formats drawn."""
    import jinja2

    style = "\n".join([*map(read_web, STYLES), _colour_rules(study)])
    script = "\n".join(map(read_web, SCRIPTS))
    # autoescape: labels, paths and settings are the user's text
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    text = environment.from_string(read_web("report.html")).render(
        title=title or title_of(study.header),
        facts=facts_of(study),
        verdict=verdict_of(study, targets),
        rankings=rankings_of(study, targets),
        pct=lambda share: f"{100 * share:.2f}%",
        variants=study.variants,
        colours=colours(study.variants),
        sections=sections,
        groups=groups_of,
        chips=_chips_of,
        switches=_switches_of,
        drawn=drawn,
        notes=study.notes,
        made=made_of(study, made_by),
        settings=shared_settings(study),
        own_settings=own_settings(study),
        repeat=repeat_command,
        style=style,
        style_hash=_hash_of(style),
        script=script,
        script_hash=_hash_of(script),
        data=_data(sections, study),
    )
    return str(text)


def read_web(name: str) -> str:
    """Return a file of the page's own."""
    return (files("prunefl.report") / "web" / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """Return by what the page's policy knows its own style and script, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def groups_of(section: Section) -> list[tuple[str, list[Figure]]]:
    """Return the section's figures by the place they share."""
    groups: dict[str, list[Figure]] = {}
    for figure in section.figures:
        groups.setdefault(figure.group or figure.name, []).append(figure)
    return list(groups.items())


def _chips_of(figure: Lines) -> list[tuple[str, str]]:
    """Return (variant, label) of every switch: the curves of one variant's seeds share one."""
    return list({curve.variant: curve.label for curve in figure.curves}.items())


def _switches_of(figure: Figure) -> list[tuple[str, str]]:
    """Return the axes that a reader may change: (which, in words)."""
    if not isinstance(figure, Lines):
        return []
    values = [at for curve in figure.curves for at in curve.x if at is not None]
    found = [("whole", f"{figure.bounds[0]:g} to {figure.bounds[1]:.3g}")] if figure.bounds else []
    return found + ([("log", "log x")] if values and min(values) > 0 else [])


def _colour_rules(study: Study) -> str:
    """Return the colours of variants and cost parts as CSS variables."""
    light, dark = _colour_variables(study, 0), _colour_variables(study, 1)
    return (
        f":root {{ {light} }}\n"
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f'@media print {{ :root, :root[data-theme="dark"] {{ {light} }} }}'
    )


def _colour_variables(study: Study, theme: int) -> str:
    """Return the colours as declarations; theme 0 is light, 1 dark."""
    variants = {key: pair[theme] for key, pair in colours(study.variants).items()}
    parts = {f"part-{part.replace(' ', '-')}": pair[theme] for part, pair in PART_COLOURS.items()}
    return " ".join(f"--{name}: {colour};" for name, colour in (variants | parts).items())


def _data(sections: Sequence[Section], study: Study) -> str:
    """Return figures and colours as JSON that can stand inside a script element."""
    figures = {f.name: dataclasses.asdict(f) for section in sections for f in section.figures}
    for figure in figures.values():
        for curve in figure.get("curves", ()):
            curve["strong"] = curve["label"] == "PruneFL"
    dashes = {key: dash for key, (_, _, dash) in colours(study.variants).items()}
    found = {"figures": figures, "dashes": dashes, "padding": PADDING}
    return script_json(found)


def script_json(value: Any) -> str:
    """Return the value as JSON that can stand inside a script element, whatever text is in it."""
    text = json.dumps(_rounded(value), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _rounded(value: Any) -> Any:
    """Return the value with floats to six digits, NaN as null: half the page's size, the same picture."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
