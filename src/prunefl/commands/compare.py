"""`prunefl compare`: several methods, several seeds, one report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunefl.commands.options import Jobs, Seeds, Targets, WriteReport

if TYPE_CHECKING:
    from prunefl.experiments import Job

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
        typer.Option(
            help="methods, separated by commas; METHOD:DENSITY or METHOD:section.key=value is a variant"
        ),
    ] = SIX,
    seeds: Seeds = 3,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None, typer.Option(help="folder for all runs [default: runs/NAME-compare, or a number on]")
    ] = None,
    target: Targets = None,
    report: WriteReport = True,
) -> None:
    """Run every method with the same seeds, data and cohorts, and write a report.

    What is finished is reused and what was interrupted goes on: give the same command again. Another config, or code of
    your own that has changed since, begins anew in the next numbered folder. Methods that need
    a density take the one that PruneFL ended with for the same seed (prunefl, or else prunefl-fisher).

    Examples:
      prunefl compare digits --methods prunefl,conventional,snip --seeds 3
      prunefl compare femnist data.dir=DIR --jobs 2 --target 0.7 --target 0.8
      prunefl compare digits --methods prunefl,snip,snip:0.3,snip:0.01
    """
    from prunefl.commands.configs import resolve
    from prunefl.commands.many import carry_out
    from prunefl.commands.numbered import fitting_folder
    from prunefl.experiments import plan_comparison

    config, name = resolve(arguments or [], None)
    names = [method for method in methods.split(",") if method.strip()]
    every = range(config.run.seed, config.run.seed + seeds)

    def plan(folder: Path) -> "list[Job]":
        return plan_comparison(config, names, every, folder)

    usual = Path("runs") / f"{name}-compare"
    folder, planned = (out, plan(out)) if out else fitting_folder(usual, plan)
    carry_out(planned, jobs, folder, report, target)
