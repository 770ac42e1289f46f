"""`prunefl lottery`: is the final mask of a run a lottery ticket?"""

from pathlib import Path
from typing import Annotated

import typer


def lottery(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="folders of finished runs")],
    jobs: Annotated[int, typer.Option(min=1, help="runs at once; the numbers are the same")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder for the new runs [default: the comparison that RUN is part of, or RUN-lottery]"
        ),
    ] = None,
    target: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, help="accuracy whose cost the report lists, such as 0.8; may be repeated"),
    ] = None,
    report: Annotated[bool, typer.Option(help="write the report at the end")] = True,
) -> None:
    """Train a run's final mask again from its first weights, and from another seed's.

    They are compared by round with conventional FL, SNIP and SynFlow at the same density.

    Examples:

      prunefl lottery runs/digits-prunefl-0

      prunefl lottery runs/femnist-compare/prunefl/seed-*
    """
    from prunefl.commands.many import carry_out
    from prunefl.compare import plan_lottery
    from prunefl.compare.plan import lottery_folder

    folder = out or lottery_folder(runs[0])
    carry_out(plan_lottery(runs, folder), jobs, folder, report, target)
