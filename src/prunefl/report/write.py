"""Put a report together: the page, and beside it every figure and table as a file."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prunefl.core.objectives import METRICS, Metric
from prunefl.report.client_tables import clients_table, personal_table
from prunefl.report.costs import prediction_figure, split_figures
from prunefl.report.curves import accuracy_figures, clients_figures, judged_by, size_figure
from prunefl.report.draw import ENDINGS, draw
from prunefl.report.explain import why_tables
from prunefl.report.figures import Figure, Lines
from prunefl.report.formats import to_csv, to_latex, to_markdown
from prunefl.report.layers import heat_figures
from prunefl.report.page import Section, page
from prunefl.report.palette import colours
from prunefl.report.runs import find_runs
from prunefl.report.special import limit_figures, lottery_figures, snip_figures, sweep_figures
from prunefl.report.study import Study, study
from prunefl.report.tables import (
    default_targets,
    layer_table,
    split_table,
    summary_table,
    target_tables,
)
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically

TITLE = "– PruneFL report</title>"
"""Stands in every page of ours: no other is replaced."""


@dataclass(frozen=True)
class Written:
    """What a report consists of."""

    page: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...]
    variants: int
    runs: int


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    targets: Sequence[float] = (),
    by: Sequence[str] = (),
    title: str = "",
    made_by: str = "prunefl report",
    figures: Sequence[str] = ENDINGS,
) -> Written:
    """Write `report.html`, `figures/` and `tables/` into `out` and return what was written.

    Args:
        folders: run folders, or folders that hold them at any depth.
        targets: accuracies, as fractions, whose cost is listed; chosen from the results if none is given.
        by: settings in which runs may differ.
        figures: formats, of "svg" and "pdf", in which figures are files too; drawing takes most of the time.
    """
    refuse_foreign_page(out)
    former = _files_of(out / "report.html")
    runs, missing = find_runs(folders)
    told = study(runs, by, missing)
    check_targets(targets, judged_by(told.variants))
    goals = list(targets) or default_targets(told)
    sections = sections_of(told, goals)
    files = _write_tables(sections, out)
    files += _draw_figures(told, sections, out, figures) if figures else []
    path = out / "report.html"
    write_atomically(path, page(told, sections, goals, title, made_by, figures).encode(), durable=False)
    for stale in former - set(files):
        stale.unlink(missing_ok=True)
    return Written(path, tuple(files), told.notes, len(told.variants), len(runs))


def check_targets(targets: Sequence[float], metric: Metric = METRICS["accuracy"]) -> None:
    """Refuse values of the task's metric that nobody can ask for."""
    for target in targets:
        if metric.percent and not 0 < target < 1:
            raise PruneFLError(f"--target {target:g}: must be between 0 and 1, such as 0.8")
        if not 0 < target < math.inf:
            raise PruneFLError(f"--target {target:g}: must be > 0, a {metric.words}")


def sections_of(told: Study, targets: Sequence[float]) -> list[Section]:
    """Return the report's sections; a figure or section without runs to fill it is left out."""
    plain = told.plain
    prediction, at_clients = prediction_figure(plain), clients_table(told)
    sections = [
        Section("accuracy", "Accuracy", tuple(accuracy_figures(told, plain)), (summary_table(told),)),
        Section(
            "clients",
            "At the clients",
            tuple(clients_figures(told, plain)) if at_clients else (),
            tuple(filter(None, (at_clients, personal_table(told)))),
        ),
        Section("targets", "Cost to reach an accuracy", (), tuple(target_tables(told, targets))),
        Section("size", "Model size", (size_figure(told, plain),)),
        Section("layers", "Layers", tuple(heat_figures(told, plain)), (layer_table(told),)),
        Section("why", "Why this size", (), tuple(why_tables(told))),
        Section("cost", "Where the time goes", tuple(split_figures(told, plain)), (split_table(told),)),
        Section("prediction", "The time model", (prediction,) if prediction else ()),
        Section("lottery", "Lottery ticket", tuple(lottery_figures(told))),
        Section("snip", "SNIP at several densities", tuple(snip_figures(told))),
        Section("limits", "Limited and targeted sizes", tuple(limit_figures(told))),
        Section("sweep", "Sweep", tuple(sweep_figures(told))),
    ]
    filled = [replace(section, figures=tuple(filter(_has_curves, section.figures))) for section in sections]
    return [section for section in filled if section.figures or section.tables]


def _has_curves(figure: Figure) -> bool:
    return not isinstance(figure, Lines) or bool(figure.curves)


def _draw_figures(told: Study, sections: Sequence[Section], out: Path, endings: Sequence[str]) -> list[Path]:
    palette, folder = colours(told.variants), out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    return [path for s in sections for figure in s.figures for path in draw(figure, palette, folder, endings)]


def _write_tables(sections: Sequence[Section], out: Path) -> list[Path]:
    (out / "tables").mkdir(parents=True, exist_ok=True)
    written = []
    for table in (table for section in sections for table in section.tables):
        for ending, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
            written.append(out / "tables" / f"{table.name}.{ending}")
            write_atomically(written[-1], text.encode(), durable=False)
    return written


def refuse_foreign_page(out: Path) -> None:
    """Refuse to write where somebody else's page is."""
    path = out / "report.html"
    if path.is_file() and TITLE not in _text_of(path):
        raise PruneFLError(f"{path} was not written by `prunefl report`: move it, or give another --out")


def _files_of(page: Path) -> set[Path]:
    """Return the figures and tables that a page links to: what an earlier report wrote beside it."""
    links = re.findall(r'href="((?:figures|tables)/[a-z0-9_-]+\.[a-z]+)"', _text_of(page))
    return {page.parent / link for link in links}


def _text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
