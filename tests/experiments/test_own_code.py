"""Own code is part of what a run is: changed code is another run, and what it raises is its own run's affair."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunefl.commands.main import app
from prunefl.config import Config, override
from prunefl.experiments import Job, Progress, plan_comparison, run_jobs
from prunefl.runs.own_code import digest_own_code
from prunefl.system.errors import PruneFLError

SMALL = [
    *("run.rounds=2", "run.eval_every=2", "data.clients=2", "model.name=lenet300100", "data.name=digits"),
    *("training.local_steps=1", "run.method=conventional", "run.backend=torch"),
]
LOSS = """import torch.nn.functional as F
from {package}parts import factor


def loss(outputs, targets):
    return factor() * F.cross_entropy(outputs, targets)


def bad(outputs, targets):
    raise KeyError("x")
"""


@pytest.fixture(params=["", "own_package"])
def home(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A module own_loss that imports another one, alone or in a package: its folder, and its dotted name."""
    pytest.importorskip("mlxtend")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    folder = tmp_path / request.param
    folder.mkdir(exist_ok=True)
    if request.param:
        (folder / "__init__.py").write_text("")
    (folder / "own_loss.py").write_text(LOSS.format(package="." if request.param else "own_"))
    (folder / ("parts.py" if request.param else "own_parts.py")).write_text("def factor():\n    return 1.0\n")
    (folder / "apart.py").write_text("")
    yield folder, ".".join([*([request.param] if request.param else []), "own_loss"])
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def small(*more: str) -> Config:
    return override(Config(), [*SMALL, *more])


def go(jobs: list[Job], at_once: int = 1) -> dict[Path, Progress]:
    told: dict[Path, Progress] = {}
    run_jobs(jobs, at_once, lambda step: told.update({step.job.folder: step}), lambda: False)
    return told


def test_a_run_of_own_code_is_reused_until_that_code_or_what_it_imports_changes(home, tmp_path) -> None:
    folder, module = home
    config = small(f"training.loss={module}:loss")
    jobs = plan_comparison(config, ["conventional"], [0], tmp_path / "runs")
    assert [step.state for step in go(jobs).values()] == ["done"]
    (folder / "apart.py").write_text("unrelated = 1\n")
    assert [step.state for step in go(jobs).values()] == ["reused"]
    parts = next(folder.glob("*parts.py"))
    before = digest_own_code(config)
    parts.write_text("def factor():\n    return 2.0\n")
    assert digest_own_code(config) != before
    with pytest.raises(
        PruneFLError, match=rf"^{module}:loss has changed since the run in .*seed-0: give another"
    ):
        go(jobs)


def test_a_config_without_own_code_has_no_digest() -> None:
    assert digest_own_code(small("training.loss=mse", "model.name=prunefl.models.unet:unet")) == ""


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("home", [""], indirect=True)
def test_what_own_code_raises_fails_its_own_run_only(home, tmp_path, monkeypatch, at_once) -> None:
    monkeypatch.setenv("PYTHONPATH", str(home[0]))
    bad = plan_comparison(small("training.loss=own_loss:bad"), ["conventional"], [0], tmp_path / "bad")
    good = plan_comparison(small(), ["conventional"], [0], tmp_path / "good")
    ended = go([*bad, *good], at_once)
    assert ended[bad[0].folder].state == "failed"
    assert "KeyError: 'x'" in ended[bad[0].folder].detail
    assert "own_loss.py" in (bad[0].folder / "output.txt").read_text()
    assert ended[good[0].folder].state == "done"


def test_runs_without_a_folder_are_numbered_and_a_comparison_ends_with_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    for _ in range(2):
        call("run", "digits", *SMALL)
    words = ["compare", "digits", *SMALL, "--methods", "conventional", "--seeds", "1", "--no-report"]
    for more in ([], [], ["training.local_steps=2"]):
        shown = call(*words[:2], *words[2:], *more)
        assert "Final accuracy" in shown
        assert "Conventional FL" in shown
    assert "reused" in call(*words)
    names = {path.name for path in (tmp_path / "runs").iterdir()}
    assert names == {
        "digits-conventional-0",
        "digits-conventional-0-2",
        "digits-compare",
        "digits-compare-2",
    }


def test_a_run_is_resumed_only_while_its_own_code_is_the_same(home, tmp_path) -> None:
    folder, module = home
    out = tmp_path / "run"
    words = ["run", "digits", *SMALL, f"training.loss={module}:loss", "--out", str(out)]
    assert CliRunner().invoke(app, words).exit_code == 0
    (folder / "apart.py").write_text("unrelated = 1\n")
    more = [*words, "--resume", "run.rounds=3"]
    assert CliRunner().invoke(app, more).exit_code == 0
    kept = {path: path.read_bytes() for path in out.glob("[!.]*") if path.is_file()}
    next(folder.glob("*parts.py")).write_text("def factor():\n    return 2.0\n")
    refused = CliRunner().invoke(app, [*more, "run.rounds=4"]).exception
    assert isinstance(refused, PruneFLError)
    assert str(refused).startswith(f"{module}:loss has changed since the run in {out}: ")
    assert kept == {path: path.read_bytes() for path in out.glob("[!.]*") if path.is_file()}
