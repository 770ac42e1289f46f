"""`prunefl compare`: several methods, several seeds, one report."""

from pathlib import Path
from typing import Annotated

import typer

from prunefl.commands.options import Jobs, Seeds, Targets, WriteReport

SIX = "prunefl,conventional,snip,synflow,online,iterative"


def compare(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG] [SECTION.KEY=VALUE]...",
            help="a TOML file or the name of a preset, then settings to change for all runs",
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(help="separated by commas; METHOD:DENSITY or METHOD:section.key=value makes a variant"),
    ] = SIX,
    seeds: Seeds = 3,
    jobs: Jobs = 1,
    out: Annotated[Path | None, typer.Option(help="folder for all runs [default: runs/NAME-compare]")] = None,
    target: Targets = None,
    report: WriteReport = True,
) -> None:
    """Run every method with the same seeds, data and cohorts, and write a report.

    What is finished is reused and what was interrupted goes on: give the same command again. Methods that need
    a density take the one that PruneFL ended with for the same seed (prunefl, or else prunefl-fisher).

    Examples:

      prunefl compare digits --methods prunefl,conventional,snip --seeds 3

      prunefl compare femnist data.dir=DIR --jobs 2 --target 0.7 --target 0.8

      prunefl compare digits --methods prunefl,snip,snip:0.3,snip:0.01,prunefl:pruning.density_limit=0.1
    """
    from prunefl.commands.configs import resolve
    from prunefl.commands.many import carry_out
    from prunefl.experiments import plan_comparison

    config, name = resolve(arguments or [], None)
    folder = out or Path("runs") / f"{name}-compare"
    names = [method for method in methods.split(",") if method.strip()]
    first = config.run.seed
    planned = plan_comparison(config, names, range(first, first + seeds), folder)
    carry_out(planned, jobs, folder, report, target)
