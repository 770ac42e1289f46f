"""What Flower is told of a run that fails: what a user can mend in his words, anything else as our own error."""

from types import SimpleNamespace

import pytest

from prunefl import config as settings
from prunefl.engines.flower.server_app import make_server_app
from prunefl.system.errors import PruneFLError


@pytest.fixture
def context(tmp_path):
    (tmp_path / "c.toml").write_text(settings.dump(settings.Config()))
    options = {
        "config": str(tmp_path / "c.toml"),
        "nodes": '{"7": 1}',
        "folder": str(tmp_path),
        "resume": True,
    }
    return SimpleNamespace(run_config=options)


def test_a_run_is_given_what_its_options_name(context, tmp_path):
    given = []
    make_server_app(lambda *arguments: given.extend(arguments))("grid", context)
    assert given == ["grid", settings.Config(), tmp_path, {7: 1}, True]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PruneFLError("run.rounds=0"), r"^run\.rounds=0$"),
        (KeyError("lost"), "^internal error of the server: KeyError: 'lost'$"),
    ],
)
def test_a_bug_of_the_server_is_called_one(context, error, words):
    def fail(*_):
        raise error

    with pytest.raises((ValueError, RuntimeError), match=words):
        make_server_app(fail)("grid", context)
