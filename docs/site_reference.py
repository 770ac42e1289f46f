"""Writes the reference from the code: every command and option, every setting, every public name."""

import importlib
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

MODULES = {
    "prunefl": "What most programs need.",
    "prunefl.config": "Settings: from TOML, to TOML, checked.",
    "prunefl.data": "Samples, and who holds them.",
    "prunefl.methods": "What a method of your own inherits, gets and gives.",
    "prunefl.local": "What a method's client half may use.",
    "prunefl.methods.base": "What a method's answers are made of.",
    "prunefl.core.masks": "Which weights live.",
    "prunefl.core.state": "A network's parameters, of which only live ones are held.",
    "prunefl.models": "The paper's networks.",
    "prunefl.local.torch_backend": "Sparse layers for a network of torch's.",
    "prunefl.local.torch_backend.network": "What can be pruned in a network of torch's.",
    "prunefl.engines.flower.client_app": "A client under Flower's own commands.",
    "prunefl.engines.flower.server_app": "What a run on Flower's grid is started with.",
    "prunefl.runs.federation": "A run on Flower's grid.",
    "prunefl.devices": "What a step and a message cost on a device.",
    "prunefl.wire": "States and statistics as bytes.",
    "prunefl.export": "A trained model elsewhere.",
    "prunefl.experiments": "Many runs: comparisons, sweeps, tickets.",
    "prunefl.report": "Pages from what runs recorded.",
}
"""Modules with public names, and what each is for."""

NAMES = {
    "prunefl.methods.base": ["Numbers"],
    "prunefl.core.masks": ["Masks", "Counts"],
    "prunefl.core.state": ["SparseState"],
    "prunefl.local.torch_backend.network": ["prunable_names"],
    "prunefl.engines.flower.client_app": ["app"],
    "prunefl.engines.flower.server_app": ["RunOptions"],
    "prunefl.runs.federation": ["run"],
}
"""Which they are, where a module does not say it by `__all__`."""


def public_names(module: str) -> list[str]:
    """Return the names that a module gives to users, but for the version."""
    names = NAMES[module] if module in NAMES else importlib.import_module(module).__all__
    return [name for name in names if not name.startswith("__")]


def home_of(module: str, name: str) -> str:
    """Return where a public name is defined, which is where its docstring is; constants stay where they are named."""
    value = getattr(importlib.import_module(module), name)
    defined = getattr(value, "__module__", "")
    if isinstance(value, type) or (callable(value) and defined.startswith("prunefl")):
        return f"{defined}.{value.__name__}"
    return f"{module}.{name}"


def api_page() -> str:
    """Return the page of public names; mkdocstrings fills in signatures and docstrings."""
    blocks, seen = (
        ["# Python\n\nWhat is listed here is public; all else may change from one version to the next.\n"],
        set(),
    )
    for module, meaning in MODULES.items():
        blocks.append(f"## `{module}` {{ #{module} }}\n\n{meaning}\n")
        for name in public_names(module):
            home = home_of(module, name)
            said = f"`{module}.{name}`"
            if home in seen or not _documented(home):
                blocks.append(f"{said}{' is the same as above.' if home in seen else ''}\n")
                continue
            seen.add(home)
            blocks.append(f"{said}\n\n::: {home}\n    options:\n      heading_level: 3\n")
    return "\n".join(blocks)


def _documented(home: str) -> bool:
    """Return whether a name is a class or function; constants and types are only named."""
    module, _, name = home.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    return isinstance(value, type) or (callable(value) and hasattr(value, "__name__"))


def settings_page() -> str:
    """Return the page of every setting with its default, its rule and its meaning."""
    from prunefl.config import Config, FleetSettings

    blocks = [
        "# Settings\n\n`section.key=value` on the command line, `[section]` in a TOML file; "
        "`prunefl config` prints them all with their values.\n"
    ]
    for section in fields(Config):
        table = FleetSettings() if section.name == "fleet" else section.default
        title = f"[[{section.name}]]" if section.name == "fleet" else f"[{section.name}]"
        blocks.append(f"## `{title}` {{ #{section.name} }}\n\n{type(table).__doc__}\n")
        blocks.append("| setting | default | kind | rule | meaning |\n|---|---|---|---|---|")
        hints = typing.get_type_hints(type(table))
        for entry in fields(table):  # type: ignore[arg-type]
            cells = (
                f"`{section.name}.{entry.name}`",
                f"`{getattr(table, entry.name)!r}`",
                _kind(hints[entry.name]),
                entry.metadata["rule"].text,
                entry.metadata["help"],
            )
            blocks.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        blocks.append("")
    return "\n".join(blocks)


def _kind(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command by its full name, with what the command line library knows of it."""
    import typer

    from prunefl.commands.main import app

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for word, inner in sorted(getattr(command, "commands", {}).items()):
            yield from below(f"{name} {word}", inner)

    yield from below("prunefl", typer.main.get_command(app))


def commands_page() -> str:
    """Return the page of every command with its arguments and options."""
    blocks = ["# Commands\n"]
    for name, command in commands():
        blocks.append(f"## `{name}` {{ #{name.replace(' ', '-')} }}\n")
        blocks.append(_paragraphs(command.help or "") + "\n")
        rows = [
            (spelling_of(parameter), getattr(parameter, "help", "") or "") for parameter in command.params
        ]
        if rows:
            blocks.append("| | |\n|---|---|")
            blocks += [f"| `{spelling}` | {_cell(meaning)} |" for spelling, meaning in rows]
            blocks.append("")
    return "\n".join(blocks)


def spelling_of(parameter: Any) -> str:
    """Return how an option or argument is typed."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper()).replace("|", " or ")
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _paragraphs(help_text: str) -> str:
    """Return a command's help, its examples as blocks."""
    from prunefl.commands.plain_help import paragraphs

    blocks = []
    for part in paragraphs(help_text):
        title, _, examples = part.partition("\n")
        shown = (
            f"```\n{textwrap.dedent(examples)}\n```"
            if title in ("Example:", "Examples:")
            else " ".join(part.split())
        )
        blocks.append(shown)
    return "\n\n".join(blocks)


PAGES = {
    "reference/api.md": api_page,
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
}
