"""`prunefl lottery`: is the final mask of a run a lottery ticket?"""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.commands.options import Jobs, Targets, WriteReport


def lottery(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="folders of finished runs")],
    jobs: Jobs = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder for the new runs [default: the comparison that RUN is part of, or RUN-lottery]"
        ),
    ] = None,
    target: Targets = None,
    report: WriteReport = True,
) -> None:
    """Train a run's final mask again from its first weights, and from another seed's.

    They are compared by round with conventional FL, SNIP and SynFlow at the same density.

    Examples:
      prunefl lottery runs/digits-prunefl-0
      prunefl lottery runs/femnist-compare/prunefl/seed-*
    """
    from prunefl.commands.configs import resolve
    from prunefl.commands.many import carry_out
    from prunefl.experiments import plan_lottery
    from prunefl.experiments.plan import lottery_folder

    for run in runs:
        if (run / "config.toml").exists():
            resolve([], None, run)  # which says so where another version wrote it
    folder = out or lottery_folder(runs[0])
    carry_out(plan_lottery(runs, folder), jobs, folder, report, target)
