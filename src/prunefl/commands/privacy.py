"""`prunefl privacy`: what a config would promise, before it is run."""

import json
from typing import Annotated, Any

import typer


def privacy(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG] [SECTION.KEY=VALUE]...",
            help="a TOML file or the name of a preset, then settings to change",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object, for programs")] = False,
) -> None:
    """Say what a config promises about privacy: epsilon, delta, and who sees what. Nothing is trained.

    Example:
      prunefl privacy femnist-select-fast privacy.noise=2 privacy.delta=1e-3 \\
        training.weighting=uniform server.max_change=0 \\
        server.max_opposition=0 server.max_statistic=0
    """
    from prunefl.commands.configs import resolve
    from prunefl.runs.promise import describe_promise

    found = describe_promise(resolve(arguments or [], None)[0])
    typer.echo(json.dumps(found, indent=1) if as_json else "\n".join(lines(found)))


def lines(found: dict[str, Any]) -> list[str]:
    """Return the promise as lines of text."""
    said = ["no differential privacy: privacy.noise=0"]
    if found["epsilon"] is not None:
        cohort = f"{found['cohort']} of {found['clients']} clients a round, {found['rounds']} rounds"
        known = [
            f"  at most {found[name]:.4g} for who knows who took part, as the server does"
            for name in ("epsilon_with_known_cohorts",)
            if name in found
        ]
        budget = f", within the budget of {found['budget']:g}" if found["budget"] else ""
        said = [
            f"epsilon {found['epsilon']:.4g} at delta {found['delta']:g}{budget}",
            f"  {cohort}, {found['rounds_with_importance']} of them with importance",
            *known,
            f"  noise {found['noise']:g} times the clip of {found['clip']:g}",
            f"  neighbours: {found['neighbours']}",
            f"  initial pruning: {found['initial_pruning']}",
        ]
    return [*said, *(f"seen by {who}: {what}" for who, what in found["who_sees"].items())]
