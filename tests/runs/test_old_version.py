"""What version 0.1 left is read by everything that only reads, and resumed by nothing: in one line, untouched."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from old_version import CONFIG, LAYERS, write_old_run
from safetensors.torch import load_file

import prunefl
from prunefl.config import override
from prunefl.runs import checkpoint
from prunefl.wire.model_file import load_model


def command(*words):
    """Return the exit code, standard output and standard error of a prunefl command."""
    program = [sys.executable, "-c", "from prunefl.commands.main import main; main()"]
    done = subprocess.run([*program, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


FINISHED = (
    "prunefl: {folder}: the run is finished, and its checkpoints cannot be used; there is nothing to resume"
)
UNFINISHED = (
    "prunefl: {folder}/checkpoints: another version of prunefl wrote these checkpoints: "
    "finish the run with that one, or give another --out"
)


@pytest.mark.parametrize(
    ("finished", "words", "more"),
    [(True, FINISHED, []), (True, FINISHED, ["run.rounds=4"]), (False, UNFINISHED, [])],
)
def test_an_old_run_is_not_resumed_and_the_reason_is_one_line(tmp_path, finished, words, more):
    folder = tmp_path / "old"
    write_old_run(folder, finished=finished)
    before = contents(folder)
    code, _, said = command("run", "--out", folder, "--resume", *more)
    assert code == 2
    assert [line for line in said.splitlines() if line.startswith("prunefl: ")] == [
        words.format(folder=folder)
    ]
    assert "Traceback" not in said
    assert contents(folder) == before


def test_checkpoints_of_both_versions_are_not_taken_for_one_anothers(tmp_path):
    """A damaged one of ours beside theirs is still a damaged one."""
    write_old_run(tmp_path / "old", finished=False)
    newest = max((tmp_path / "old" / "checkpoints").iterdir())
    newest.write_bytes(b"cut off")
    with pytest.raises(
        prunefl.PruneFLError, match=r"delete the run's folder.*checksum.*another one wrote it"
    ):
        checkpoint.load_latest(tmp_path / "old" / "checkpoints", 1 << 40)


def test_a_report_shows_an_old_run(tmp_path):
    write_old_run(tmp_path / "old")
    code, _, said = command(
        "report", tmp_path / "old", "--out", tmp_path / "report", "--figures", "none", "--target", "0.5"
    )
    assert code == 0, said
    page = (tmp_path / "report" / "report.html").read_text()
    assert "PruneFL" in page
    assert "60.0" in page


def test_inspect_shows_an_old_model_and_an_old_checkpoint(tmp_path):
    write_old_run(tmp_path / "old")
    state, _ = load_model(tmp_path / "old" / "model.safetensors")
    code, shown, said = command("inspect", tmp_path / "old" / "model.safetensors")
    assert code == 0, said
    for name, live in state.masks.counts.items():
        assert any(name in line and f"{live:,}" in line for line in shown.splitlines()), shown
    code, shown, said = command("inspect", max((tmp_path / "old" / "checkpoints").iterdir()))
    assert code == 0, said
    assert all(f"values/{name}" in shown for name in LAYERS)


def test_an_old_model_is_loaded_and_exported_with_its_weights(tmp_path):
    expected = write_old_run(tmp_path / "old")
    state, about = load_model(tmp_path / "old" / "model.safetensors")
    assert (about.model, about.classes, about.input_shape) == ("lenet300100", 10, (1, 28, 28))
    assert all(np.array_equal(state.dense(name), value) for name, value in expected.items())
    dense = prunefl.densify(prunefl.load(tmp_path / "old")).state_dict()
    assert all(np.array_equal(dense[name].numpy(), value) for name, value in expected.items())
    code, _, said = command("export", tmp_path / "old", "--to", "safetensors")
    assert code == 0, said
    written = load_file(tmp_path / "old" / "model.dense.safetensors")
    assert {name: torch.equal(written[name], dense[name]) for name in expected} == dict.fromkeys(
        expected, True
    )


def test_a_lottery_takes_the_masks_of_an_old_run(tmp_path):
    write_old_run(tmp_path / "old")
    state, _ = load_model(tmp_path / "old" / "model.safetensors")
    wanted = ["run.method=ticket", "run.rounds=1", "run.workers=1", f"pruning.masks={tmp_path / 'old'}"]
    ticket = prunefl.run_config(override(CONFIG, wanted), None)
    assert ticket.state.masks == state.masks
