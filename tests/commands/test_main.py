"""What the command line does with errors, and the options that stand before every command."""

import sys

import pytest

import prunefl
from prunefl.commands import main as cli
from prunefl.commands.main import main
from prunefl.system.errors import PruneFLError


@pytest.fixture
def command(monkeypatch):
    """Return what runs the command line with these words, `prunefl presets` raising what it is given."""

    def run(*words, error=None):
        def fail():
            if error is not None:
                raise error

        monkeypatch.setattr("prunefl.commands.configs.preset_names", fail)
        monkeypatch.setattr(sys, "argv", ["prunefl", *words])
        main()

    monkeypatch.setenv(cli.DEBUG, "")
    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PruneFLError("run.rounds=0, must be >= 1"), "prunefl: run.rounds=0, must be >= 1"),
        (
            FileNotFoundError(2, "No such file or directory", "a.toml"),
            "prunefl: a.toml: No such file or directory",
        ),
    ],
)
def test_what_a_user_can_mend_is_one_line(command, capsys, error, line):
    with pytest.raises(SystemExit, match="2"):
        command("presets", error=error)
    assert capsys.readouterr().err.splitlines() == [line]


@pytest.mark.parametrize(
    "error", [KeyError("x"), RuntimeError("x"), TypeError("x"), OSError("no file's fault")]
)
def test_our_own_bugs_keep_their_traceback(command, error):
    with pytest.raises(type(error)) as raised:
        command("presets", error=error)
    assert raised.value is error


@pytest.mark.parametrize("by_environment", [False, True])
def test_debug_shows_the_traceback_always(command, monkeypatch, by_environment):
    if by_environment:
        monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(PruneFLError):
        command(*[] if by_environment else ["--debug"], "presets", error=PruneFLError("wrong"))


def test_the_version_is_told(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        command("--version")
    assert capsys.readouterr().out == f"prunefl {prunefl.__version__}\n"


@pytest.mark.parametrize("words", [[], ["run"], ["bench", "wire"], ["data", "check"]])
def test_a_short_option_helps_too(command, capsys, words):
    with pytest.raises(SystemExit, match="0"):
        command(*words, "-h")
    assert "Usage:" in capsys.readouterr().out
