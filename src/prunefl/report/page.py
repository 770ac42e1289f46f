"""The report as one self-contained HTML page; the only home of jinja2."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from prunefl.config.settings import flat
from prunefl.report.figures import Figure
from prunefl.report.headline import cards_of, facts_of, title_of
from prunefl.report.palette import PART_COLOURS, colours
from prunefl.report.study import Study
from prunefl.report.tables import Table


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

    own = files("prunefl.report")
    # autoescape: labels, paths and settings are the user's text
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((own / "page.html").read_text(encoding="utf-8"))
    text = template.render(
        title=title or title_of(study),
        facts=facts_of(study),
        cards=cards_of(study, targets),
        variants=study.variants,
        colours=colours(study.variants),
        light=_colour_variables(study, 0),
        dark=_colour_variables(study, 1),
        sections=sections,
        groups=groups_of,
        drawn=drawn,
        notes=study.notes,
        settings=flat(study.config),
        made_by=made_by,
        style=(own / "page.css").read_text(encoding="utf-8"),
        scripts=[(own / name).read_text(encoding="utf-8") for name in ("charts.js", "page.js")],
        data=_data(sections, study),
    )
    return str(text)


def groups_of(section: Section) -> list[tuple[str, list[Figure]]]:
    """Return the section's figures by the place they share."""
    groups: dict[str, list[Figure]] = {}
    for figure in section.figures:
        groups.setdefault(figure.group or figure.name, []).append(figure)
    return list(groups.items())


def _colour_variables(study: Study, theme: int) -> str:
    """Return the colours of variants and cost parts as CSS variables; theme 0 is light, 1 dark."""
    variants = {key: pair[theme] for key, pair in colours(study.variants).items()}
    parts = {f"part-{part.replace(' ', '-')}": pair[theme] for part, pair in PART_COLOURS.items()}
    return " ".join(f"--{name}: {colour};" for name, colour in (variants | parts).items())


def _data(sections: Sequence[Section], study: Study) -> str:
    """Return figures and colours as JSON that can stand inside a script element."""
    figures = {f.name: dataclasses.asdict(f) for section in sections for f in section.figures}
    labels = {variant.key: variant.label for variant in study.variants}
    dashes = {key: dash for key, (_, _, dash) in colours(study.variants).items()}
    text = json.dumps(
        _rounded({"figures": figures, "labels": labels, "dashes": dashes}), separators=(",", ":")
    )
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _rounded(value: Any) -> Any:
    """Return the value with floats to six digits, NaN as null: half the page's size, the same picture."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
