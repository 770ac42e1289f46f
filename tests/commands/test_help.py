"""The help of every command: it fits a terminal, sentences flow, nothing is cut off, and every name is explained."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner

from prunefl.commands.main import app

COLUMNS = 80


def below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from below((*words, name), inner)


TREE = dict(below((), typer.main.get_command(app)))


def shown(words: tuple[str, ...], columns: int = COLUMNS) -> str:
    """Return a command's help in a terminal of so many columns."""
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*words, "--help"], prog_name="prunefl")
    assert result.exit_code == 0, result.output
    return result.output


def unbroken(text: str) -> str:
    return " ".join(text.split())


def spoken(words: tuple[str, ...]) -> str:
    return " ".join(words) or "prunefl"


@pytest.fixture(params=TREE, ids=spoken)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param)


def test_the_tree_has_all_commands() -> None:
    assert {("run",), ("data", "check"), ("leaderboard", "table"), ("bench", "step")} <= set(TREE)


def test_help_fits_eighty_columns(words: tuple[str, ...]) -> None:
    assert not [line for line in shown(words).splitlines() if len(line) > COLUMNS]


def test_a_command_and_all_that_it_takes_are_explained_in_full(words: tuple[str, ...]) -> None:
    command, text = TREE[words], unbroken(shown(words))
    assert text.startswith(f"Usage: {' '.join(('prunefl', *words))} ")
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        meaning = unbroken(parameter.help or "")
        # more than the name again: a reader has to learn something from it
        assert len(meaning.split()) >= 3, f"{spoken(words)}: {parameter.name} is not explained"
        assert meaning in text
    if words:
        assert unbroken(command.help) in text


def test_a_group_says_what_each_of_its_commands_is_for(words: tuple[str, ...]) -> None:
    listed = unbroken(shown(words).partition("\nCommands:\n")[2])
    for name, inner in getattr(TREE[words], "commands", {}).items():
        assert f"{name} {unbroken(inner.help.split(chr(10) * 2)[0])}" in listed


def test_lines_are_as_full_as_they_can_be(words: tuple[str, ...]) -> None:
    """A line goes on with the next one's first word, if that has the same indent and would have fitted."""
    text, _, examples = shown(words).partition("\n  Example")
    rest = examples.partition("\n\n")[2]
    for part in (text, rest):
        for line, following in zip(part.splitlines(), part.splitlines()[1:], strict=False):
            begin = re.match(r"(  \S.*?  +)?\s*", line)
            assert begin is not None
            continued = (
                following.startswith(" " * begin.end()) and following[begin.end() : begin.end() + 1].strip()
            )
            if line.strip() and continued and not line.endswith(":"):
                assert len(line) + 1 + len(following.split()[0]) > COLUMNS, line


def examples() -> list[tuple[tuple[str, ...], str]]:
    found = []
    for words, command in TREE.items():
        _, _, block = (command.help or "").partition("Example")
        lines = block.partition("\n")[2].replace("\\\n", " ").splitlines()
        found += [(words, unbroken(line.partition("#")[0])) for line in lines if line.strip()]
    return found


@pytest.mark.parametrize(("words", "line"), examples(), ids=lambda value: str(value))
def test_an_example_can_be_typed(words: tuple[str, ...], line: str) -> None:
    typed = shlex.split(line.partition(">")[0])
    named = max((known for known in TREE if tuple(typed[1 : len(known) + 1]) == known), key=len)
    assert typed[0] == "prunefl"
    with click.Context(TREE[named]) as context:
        arguments = typed[len(named) + 1 :]
        TREE[named].make_parser(context).parse_args(arguments) if hasattr(
            TREE[named], "make_parser"
        ) else None
    assert words[:1] == named[:1] or named == ("run",)


def test_every_command_but_groups_and_the_plainest_has_an_example() -> None:
    with_one = {words for words, _ in examples()}
    without = {words for words, command in TREE.items() if not hasattr(command, "commands")} - with_one
    assert without == {("presets",), ("leaderboard", "check"), ("leaderboard", "table")}


def test_a_wide_or_narrow_terminal_is_shown_the_same() -> None:
    assert shown(("client",), 60) == shown(("client",), 80) == shown(("client",), 200)


def test_help_says_the_same_when_the_package_is_run_as_a_module() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "prunefl", "run", "-h"], capture_output=True, text=True, check=True
    )
    assert "Usage: python -m prunefl run [OPTIONS] [CONFIG] [SECTION.KEY=VALUE]..." in unbroken(told.stdout)
