"""`prunefl explain RUN`: why the model has the size it has."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table as Drawn

    from prunefl.report.tables import Table


def explain(
    run: Annotated[Path, typer.Argument(help="folder of a run of one of PruneFL's methods")],
) -> None:
    """Say why a run's model has the size it has.

    Γ, what a second of a round brings and costs in each layer, what every reconfiguration cut, and what that was
    expected to cost in loss. Reads the run's records and nothing else.

    Example:
      prunefl explain runs/demo/prunefl-fisher
    """
    from rich.console import Console

    from prunefl.report.explain import explained, history_table, layers_table, sentences
    from prunefl.report.runs import read_run
    from prunefl.system.errors import PruneFLError

    if not (run / "records.jsonl").is_file():
        raise PruneFLError(f"{run}: must be the folder of a run (there is no records.jsonl in it)")
    found = read_run(run)
    if not found.rounds:
        raise PruneFLError(f"{run}: has no round to explain yet: {'; '.join(found.notes)}")
    if not explained(found):
        raise PruneFLError(
            f"{run}: there is no reconfiguration to explain in its {len(found.rounds)} rounds: "
            "PruneFL's methods have one every pruning.interval rounds"
        )
    screen = Console()
    console = screen if screen.is_terminal else Console(width=160)
    for sentence in sentences(found):
        console.print(sentence, highlight=False, markup=False)
    for table in (layers_table(found), history_table(found)):
        console.print(_drawn(table))
        console.print(table.caption, style="dim", highlight=False, markup=False)


def _drawn(table: "Table") -> "Drawn":
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(title=f"\n{table.title}", title_justify="left", box=None, header_style="bold")
    for place, column in enumerate(table.columns):
        ends = place in (0, len(table.columns) - 1)
        drawn.add_column(column, justify="left" if ends else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
