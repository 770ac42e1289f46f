"""`prunefl report`: one page, figures and tables from run folders."""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.commands.options import Targets
from prunefl.system.errors import PruneFLError


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="folders of runs, or folders that hold such")
    ],
    out: Annotated[Path | None, typer.Option(help="folder to write into [default: DIR/report]")] = None,
    target: Targets = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECTION.KEY", help="setting in which the runs differ on purpose; may be repeated"
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="heading of the page [default: model and data]")] = "",
    figures: Annotated[
        str, typer.Option(metavar="svg,pdf|none", help="formats in which every figure is a file too")
    ] = "svg,pdf",
) -> None:
    """Write report.html, and beside it every figure and table, from what runs have recorded.

    The page needs no network. Curves can be switched on and off and read at a point.

    Examples:
      prunefl report runs/femnist-compare --target 0.7 --target 0.8
      prunefl report runs/a runs/b --by data.alpha --out both
    """
    from prunefl.report import write_report
    from prunefl.report.headline import plural

    written = write_report(
        folders,
        out or folders[0] / "report",
        targets=target or (),
        by=by or (),
        title=title,
        made_by=f"prunefl report {' '.join(map(str, folders))}",
        figures=_formats(figures),
    )
    for note in written.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{written.page}: {plural(written.variants, 'variant')} from {plural(written.runs, 'run')}")
    typer.echo(f"{len(written.files)} figures and tables beside it")


def _formats(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    wrong = [name for name in names if name not in ("svg", "pdf")]
    if wrong:
        raise PruneFLError(f"--figures {text}: must be svg, pdf, svg,pdf or none")
    return names
