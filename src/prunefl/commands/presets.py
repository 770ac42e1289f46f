"""`prunefl presets` and `prunefl config`: what can be run, and every setting with its meaning."""

import shutil
import textwrap
from typing import Annotated

import typer


def presets() -> None:
    """List the experiments that come with the package."""
    from prunefl.commands.configs import preset, preset_names

    margin, columns = max(map(len, preset_names())) + 2, shutil.get_terminal_size().columns
    for name in preset_names():
        first = preset(name).read_text().splitlines()[0].lstrip("# ")
        words = textwrap.wrap(first, max(columns - margin, 20), break_on_hyphens=False)
        typer.echo(f"{name:<{margin}}" + f"\n{'':<{margin}}".join(words))


def config(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG] [SECTION.KEY=VALUE]...",
            help="a TOML file or the name of a preset, then settings to change",
        ),
    ] = None,
) -> None:
    """Print a complete config with the meaning of every setting, to start your own from.

    Example:
      prunefl config femnist run.rounds=500 > mine.toml
    """
    from prunefl.commands.configs import resolve
    from prunefl.config import dump

    typer.echo(dump(resolve(arguments or [], None)[0], comments=True), nl=False)
