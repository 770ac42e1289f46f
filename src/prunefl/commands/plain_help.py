"""The help of every command: plain text in 80 columns, whose sentences flow and whose arguments are explained.

Typer draws boxes instead: sentences break where the source does, long words are cut off, and what stands in square
brackets is taken for a colour.
"""

import inspect
import textwrap
import typing
from collections.abc import Callable, Iterable
from typing import Any

import click
import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, CommandFunctionType

WIDEST = 80
NAMES = 26
"""Columns for what is typed; what it means begins below a longer one."""


class App(typer.Typer):
    """A group of commands with plain help, which `-h` shows, too."""

    def __init__(self, **settings: Any) -> None:
        usual: dict[str, Any] = {"cls": Group, "no_args_is_help": True, "rich_markup_mode": None}
        # a bug's traceback as Python shows it: whole
        usual["pretty_exceptions_enable"] = False
        # newer versions of click name the likeliest command by themselves
        usual["suggest_commands"] = not hasattr(click, "NoSuchCommand")
        usual["context_settings"] = {"help_option_names": ["-h", "--help"]}
        super().__init__(**usual | settings)

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Return what makes a function a command."""
        return super().command(name, **{"cls": Command} | settings)


class Command(TyperCommand):
    """A command with plain help."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        keep_help(self)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, text, arguments and options."""
        formatter.write(plain_help(self, ctx))


class Group(TyperGroup):
    """A group of commands with plain help."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, text, options and the commands."""
        formatter.write(plain_help(self, ctx))


def keep_help(command: click.Command) -> None:
    """Give arguments the help that they were declared with: click 8.5 takes it from typer's before 0.21."""
    declared = (
        typing.get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        if command.callback
        else {}
    )
    parameters: list[Any] = list(command.params)
    for parameter in parameters:
        for said in getattr(declared.get(parameter.name or ""), "__metadata__", ()):
            if isinstance(said, ArgumentInfo):
                parameter.help = said.help


def plain_help(command: click.Command, ctx: click.Context) -> str:
    """Return all that a command's help says."""
    usage = click.HelpFormatter(width=min(ctx.terminal_width or WIDEST, WIDEST))
    command.format_usage(ctx, usage)
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    parameters: list[Any] = command.get_params(ctx)
    for parameter in parameters:
        if record := parameter.get_help_record(ctx):
            # typer escapes the bracket of a default for rich, which does not read this
            records[parameter.param_type_name].append((record[0], record[1].replace("\\[", "[")))
    inner = getattr(command, "commands", {})
    listed = [
        (name, (below.help or "").split("\n\n")[0]) for name, below in inner.items() if not below.hidden
    ]
    blocks = [
        usage.getvalue(),
        *(f"{paragraph}\n" for paragraph in paragraphs(command.help or "", "  ")),
        *section("Arguments", records["argument"]),
        *section("Options", records["option"]),
        *section("Commands", listed),
    ]
    return "\n".join(blocks)


def paragraphs(text: str, indent: str = "") -> list[str]:
    """Return a help text's paragraphs in lines of 80; examples stay as they are."""
    found = [part.strip("\n") for part in inspect.cleandoc(text).split("\n\n")]
    return [
        textwrap.indent(part, indent) if part.startswith("Example") else flow(part, indent)
        for part in found
        if part
    ]


def flow(text: str, indent: str, first: str | None = None) -> str:
    """Return text in lines of 80, each as full as can be; no name is broken at its hyphens."""
    begin = indent if first is None else first
    wrapper = textwrap.TextWrapper(WIDEST, begin, indent, break_on_hyphens=False, break_long_words=False)
    return wrapper.fill(" ".join(text.split()))


def section(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a list of names with their meanings; nothing where there are none."""
    rows = list(rows)
    margin = min(max((len(name) for name, _ in rows), default=0), NAMES) + 4
    lines = []
    for name, meaning in rows:
        begin = f"  {name:<{margin - 4}}  "
        if len(name) > NAMES:
            lines.append(f"  {name}")
            begin = " " * margin
        lines.append(flow(meaning, " " * margin, begin))
    return [f"{title}:\n" + "\n".join(lines) + "\n"] if rows else []
