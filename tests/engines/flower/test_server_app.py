"""What Flower is told of a run that fails: what a user can mend in his words, anything else as our own error."""

import stat
import tomllib

import pytest

from prunefl import config as settings
from prunefl.engines.flower import control
from prunefl.engines.flower.server_app import RunOptions, make_server_app
from prunefl.system.errors import PruneFLError


@pytest.fixture
def options(tmp_path, monkeypatch):
    (tmp_path / "c.toml").write_text(settings.dump(settings.Config()))
    options = RunOptions(tmp_path / "c.toml", tmp_path, {7: 1}, tmp_path / "keys", resume=True)
    options.write(tmp_path / ".run.json")
    monkeypatch.setenv("PRUNEFL_RUN_FILE", str(tmp_path / ".run.json"))
    return options


def test_a_run_is_given_what_its_file_names_and_nodes_are_told_nothing(options, tmp_path):
    given = []
    make_server_app(lambda *arguments: given.extend(arguments))("grid", None)
    assert given == ["grid", settings.Config(), options]
    assert stat.S_IMODE((tmp_path / ".run.json").stat().st_mode) == 0o600
    bundled = tomllib.loads((control.APP / "pyproject.toml").read_text())
    assert bundled["tool"]["flwr"]["app"]["config"] == {}


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (PruneFLError("run.rounds=0"), PruneFLError, r"^run\.rounds=0$"),
        (OSError("no such disk"), OSError, "^no such disk$"),
        (ValueError("lost"), RuntimeError, "^internal error of the server: ValueError: lost$"),
        (KeyError("lost"), RuntimeError, "^internal error of the server: KeyError: 'lost'$"),
    ],
)
def test_a_bug_of_the_server_is_called_one(options, error, kind, words):
    def fail(*_):
        raise error

    with pytest.raises(kind, match=words):
        make_server_app(fail)("grid", None)
