"""A library leaves its host's process as it was: allocator, sys.path and threads are the program's business."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from prunefl.commands import main as cli
from prunefl.runs.api import train
from tasks import small_clients, small_config, small_data, small_model

EXAMPLES = Path(__file__).parents[2] / "examples"


def go(**sections):
    config = small_config(**{"run": {"rounds": 1}, **sections})
    return train(small_model(), small_clients(), test=small_data(20, 9), config=config)


def test_training_does_not_touch_the_allocator_and_the_command_line_does(monkeypatch):
    told = []
    monkeypatch.setattr("ctypes.CDLL", lambda name: told.append(name))
    go()
    assert told == []
    monkeypatch.setattr(cli, "keep_freed_memory", lambda: told.append("kept"))
    for words, expected in ((["presets"], []), (["bench", "wire", "--density", "2"], ["kept"])):
        monkeypatch.setattr(sys, "argv", ["prunefl", *words])
        with pytest.raises(SystemExit):
            cli.main()
        assert told == expected


def test_training_with_an_own_method_and_an_own_model_leaves_the_path_alone(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before = list(sys.path)
    go(run={"method": "own_method:QFedAvg", "rounds": 1})
    assert sys.path == before


def test_what_lies_in_the_working_folder_is_found_by_the_command_line_alone(monkeypatch, tmp_path):
    (tmp_path / "beside.py").write_text(
        "from prunefl import PruneFLError\n\n\ndef method(config):\n    raise PruneFLError('found it')\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="No module named 'beside'"):
        go(run={"method": "beside:method"})
    program = [sys.executable, "-P", "-c", "from prunefl.commands.main import main; main()"]
    words = ["compare", "--methods", "beside:method", "--out", tmp_path / "x"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
    assert done.stderr == "prunefl: found it\n"


@pytest.mark.parametrize("words", [["run"], ["compare", "--methods", "conventional", "--jobs", "2"]])
def test_a_file_in_the_working_folder_is_not_taken_for_a_module_of_python_or_of_a_library(words, tmp_path):
    """Nor in processes that a command starts."""
    for name in ("queue", "socket", "matplotlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    program = [sys.executable, "-P", "-c", "from prunefl.commands.main import main; main()", *words]
    settings = ["run.rounds=1", "run.backend=native", "initial.max_passes=2", "model.name=lenet300100"]
    done = subprocess.run(
        [*program, "digits", *settings, "--out", "x"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fails", [False, True])
def test_training_gives_the_threads_back(fails):
    def on_record(record):
        assert torch.get_num_threads() == 2
        if fails:
            raise RuntimeError("of the host's own")

    torch.set_num_threads(1)
    config = small_config(run={"rounds": 1, "threads": 2, "backend": "torch"})
    with pytest.raises(RuntimeError, match="of the host's own") if fails else nullcontext():
        train(small_model(), small_clients(), test=small_data(20, 9), config=config, on_record=on_record)
    assert torch.get_num_threads() == 1
