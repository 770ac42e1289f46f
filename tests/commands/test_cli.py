"""The command line as a person uses it: real processes, real files."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from prunefl.commands.main import main
from prunefl.runs.records import read_records

pytest.importorskip("mlxtend", reason="the demo extra is not installed")

QUICK = [
    "model.name=lenet300100",
    "run.rounds=4",
    "run.eval_every=2",
    "pruning.interval=2",
    "initial.max_passes=6",
    "initial.interval=2",
    "initial.samples=60",
]


def prunefl(*words, **options):
    command = [sys.executable, "-c", "from prunefl.commands.main import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def test_a_run_leaves_config_records_checkpoints_model_and_pictures(tmp_path):
    done = prunefl("run", *QUICK, "--out", tmp_path / "r", "--seed", 3)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert {
        "config.toml",
        "records.jsonl",
        "checkpoints",
        "model.safetensors",
        "accuracy.png",
        "density.png",
    } <= names
    kept = tomllib.loads((tmp_path / "r" / "config.toml").read_text())
    assert kept["run"]["seed"] == 3
    records = read_records(tmp_path / "r" / "records.jsonl")
    assert [record["kind"] for record in records] == ["run", "initial", *["round"] * 4, "end"]
    assert "accuracy" in done.stdout
    assert "round 4" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "run.ronds=3"], "run.ronds: no such setting; did you mean run.rounds?"),
        (["run", "training.local_steps=0"], "training.local_steps=0, must be >= 1"),
        (["run", "nothing.toml"], "nothing.toml: neither a config file nor a preset"),
        (["run", "run.method=prunfl"], "run.method='prunfl', must be one of"),
        (["run", "femnist", "data.dir=/nowhere"], "/nowhere"),
        (["run", "model.name=convtwo"], "model.name='convtwo'"),
        (["run", "initial.samples=100000"], "initial.samples=100000, must be <="),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_never_a_traceback(tmp_path, words, message):
    done = prunefl(*words, "--out", tmp_path / "r")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    complaint = [line for line in done.stderr.splitlines() if line.startswith("prunefl: ")]
    assert len(complaint) == 1
    assert message in complaint[0]


def test_a_folder_that_cannot_be_written_is_one_line_too(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["prunefl", "run", *QUICK, "--out", str(tmp_path / "file" / "r")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"prunefl: {tmp_path / 'file'}")


def test_ctrl_c_stops_after_the_round_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "r"
    command = [
        sys.executable,
        "-c",
        "from prunefl.commands.main import main; main()",
        "run",
        *QUICK,
        "run.rounds=100000",
    ]
    with subprocess.Popen(
        [*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        deadline = time.monotonic() + 60
        while not (out / "checkpoints").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGINT)
        stdout, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert f"prunefl run --out {out} --resume" in stdout
    before = len(read_records(out / "records.jsonl"))
    resumed = prunefl("run", "--out", out, "--resume", "training.batch_size=7")
    assert "training.batch_size=7, but the run in" in resumed.stderr
    assert len(read_records(out / "records.jsonl")) == before


def test_a_second_ctrl_c_ends_initial_pruning_too(tmp_path):
    out = tmp_path / "r"
    endless = ["initial.max_passes=1000000", "initial.start_factor=1000", "run.backend=torch"]
    command = [sys.executable, "-m", "prunefl", "run", *QUICK, *endless, "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 60
        while not (out / "records.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGINT)
        assert "or after initial pruning (Ctrl-C again: at once)" in read_until(child.stderr, "stopping")
        os.kill(child.pid, signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode == 130


def read_until(lines, word):
    """Return the first line with this word in it."""
    return next(line for line in lines if word in line)


def test_a_finished_run_goes_on_to_more_rounds(tmp_path):
    prunefl("run", *QUICK, "--out", tmp_path / "r")
    done = prunefl("run", "--out", tmp_path / "r", "--resume", "run.rounds=7")
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path / "r" / "records.jsonl")
    assert [record["kind"] for record in records] == ["run", "initial", *["round"] * 7, "end"]
    refused = prunefl("run", "--out", tmp_path / "r", "--resume", "run.rounds=5")
    assert "run.rounds=5, but the run in" in refused.stderr
    assert "has done 7 rounds, must be >= 7" in refused.stderr


def test_presets_and_config_are_printed_and_read_back(tmp_path):
    assert "femnist" in prunefl("presets").stdout
    text = prunefl("config", "femnist", "run.rounds=7").stdout
    tables = tomllib.loads(text)
    assert tables["run"]["rounds"] == 7
    assert tables["training"]["loss"] == "onehot_bce"
    assert "# mini-batches a client trains in a round (I)" in text
    assert json.dumps(tables)


def test_help_shows_examples():
    assert "--resume" in prunefl("run", "--help").stdout
