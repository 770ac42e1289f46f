"""`prunefl sweep`: the same run with one setting, or several, at several values."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunefl.commands.options import Jobs, Seeds, Targets, WriteReport
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.experiments import Job


def sweep(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[CONFIG] SECTION.KEY=A,B,C...",
            help="a TOML file or the name of a preset, then the settings to sweep; one value changes all runs",
        ),
    ],
    methods: Annotated[str, typer.Option(help="methods, separated by commas")] = "prunefl",
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None, typer.Option(help="folder for all runs [default: runs/NAME-sweep, or a number on]")
    ] = None,
    target: Targets = None,
    report: WriteReport = True,
) -> None:
    """Run every combination of the values given, and write a report.

    What is finished is reused and what was interrupted goes on: give the same command again. Another config, or code of
    your own that has changed since, begins anew in the next numbered folder.

    Examples:
      prunefl sweep digits pruning.density_limit=0.05,0.1,0.2
      prunefl sweep digits fleet.bandwidth=5e5,2e6,8e6
      prunefl sweep digits data.alpha=0.1,1,10 --seeds 3 --jobs 2
    """
    from prunefl.commands.configs import resolve
    from prunefl.commands.many import carry_out
    from prunefl.commands.numbered import fitting_folder
    from prunefl.experiments import plan_sweep
    from prunefl.experiments.plan import parse_swept

    named = arguments[:1] if "=" not in arguments[0] else []
    scale = [word for word in arguments if word.startswith("scale=")]
    given = parse_swept([word for word in arguments[len(named) :] if word not in scale])
    swept = {key: values for key, values in given.items() if len(values) > 1}
    if not swept:
        raise PruneFLError(
            "nothing to sweep: give at least one setting several values, as data.alpha=0.1,1,10"
        )
    fixed = [f"{key}={values[0]}" for key, values in given.items() if len(values) == 1]
    config, name = resolve([*named, *fixed, *scale], None)
    names = [method for method in methods.split(",") if method.strip()]
    every = range(config.run.seed, config.run.seed + seeds)

    def plan(folder: Path) -> "list[Job]":
        return plan_sweep(config, swept, names, every, folder)

    usual = Path("runs") / f"{name}-sweep"
    folder, planned = (out, plan(out)) if out else fitting_folder(usual, plan)
    carry_out(planned, jobs, folder, report, target)
