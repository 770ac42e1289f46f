"""Stop, kill, damage and resume: the numbers are those of a run that nothing happened to."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import TensorDataset

from prunefl.runs.api import train
from prunefl.runs.records import read_records
from prunefl.system.files import save_arrays
from prunefl.system.locks import FolderInUseError
from tasks import same_bits, small_clients, small_config, small_data, small_model

TEST = small_data(100, seed=99)


def go(config, out=None, **options):
    return train(small_model(), small_clients(), test=TEST, config=config, out=out, **options)


VARIANTS = {
    "plain": {},
    "all rounds collect importance": {"importance": {"window": "all"}},
    "int8 with feedback": {"wire": {"precision": "int8", "importance": "log8"}},
    "client selection": {"training": {"participants": 2}},
    "online, which remembers": {"run": {"method": "online"}},
    "moments kept at clients and at the server": {
        "optimiser": {"name": "adam", "keep": True},
        "server_optimiser": {"name": "fedyogi", "rate": 0.1},
        "training": {
            "learning_rate": 0.01,
            "participants": 2,
            "local_steps": 5,
            "local_epochs": 1,
            "warmup_rounds": 3,
        },
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stop_after", [0, 4])
def test_a_stopped_and_resumed_run_ends_with_the_same_bits(tmp_path, variant, stop_after):
    config = small_config(**VARIANTS[variant])
    whole = go(config, tmp_path / "whole")

    def stop(record):
        return record.get("round", 0) >= stop_after

    first = go(config, tmp_path / "x", on_record=stop)
    assert not first.finished
    resumed = go(config, tmp_path / "x", resume=True)
    assert resumed.finished
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())
    numbers = [[_without_wall(record) for record in run.records] for run in (whole, resumed)]
    assert numbers[0] == numbers[1]


def _without_wall(record):
    text = json.dumps({key: value for key, value in record.items() if key not in ("wall_seconds", "started")})
    total = {k: v for k, v in record.get("total", {}).items() if k != "wall_seconds"}
    return {**json.loads(text), "total": total}


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tasks import small_clients, small_config, small_data, small_model
from prunefl.runs.api import train
from prunefl.system.locks import FolderInUseError
config = small_config(run={{"rounds": 60}}, importance={{"window": "all"}})
train(small_model(), small_clients(), test=small_data(100, seed=99), config=config, out=Path({out!r}), resume=True)
"""


def test_a_run_killed_at_any_moment_resumes_to_the_same_bits(tmp_path):
    config = small_config(run={"rounds": 60}, importance={"window": "all"})
    whole = go(config, tmp_path / "whole")
    out = tmp_path / "killed"
    program = KILLED.format(tests=str(Path(__file__).parents[1]), out=str(out))
    kills = 0
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline, seen = time.monotonic() + 60, _rounds_in(out)
        while child.poll() is None and _rounds_in(out) < seen + 8 and time.monotonic() < deadline:
            time.sleep(0.005)
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            kills += 1
        child.wait()
    assert kills
    resumed = go(config, out, resume=True)
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())


def _rounds_in(out):
    path = out / "records.jsonl"
    return len(read_records(path)) if path.exists() else 0


def test_an_unreadable_checkpoint_is_named_and_skipped(tmp_path):
    config = small_config()
    out = tmp_path / "x"
    go(config, out, on_record=lambda record: record.get("round") == 5)
    newest = max((out / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-10])
    resumed = go(config, out, resume=True)
    whole = go(config)
    assert newest.name in resumed.complaints[0]
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())


def test_a_checkpoint_that_knows_of_lost_records_is_named_and_skipped(tmp_path):
    config = small_config()
    go(config, tmp_path, on_record=lambda record: record.get("round") == 5)
    file = tmp_path / "records.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    resumed = go(config, tmp_path, resume=True)
    whole = go(config)
    assert "gone from records.jsonl" in resumed.complaints[0]
    assert [record.get("round") for record in resumed.records] == [r.get("round") for r in whole.records]
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())


def test_a_finished_run_without_checkpoints_is_left_as_it_is(tmp_path):
    config = small_config()
    go(config, tmp_path)
    for path in (tmp_path / "checkpoints").iterdir():
        path.unlink()
    before = (tmp_path / "records.jsonl").read_bytes()
    with pytest.raises(ValueError, match="is finished, and its checkpoints are gone"):
        go(config, tmp_path, resume=True)
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_a_checkpoint_of_another_version_is_named_and_skipped(tmp_path):
    config = small_config()
    go(config, tmp_path, on_record=lambda record: record.get("round") == 5)
    folder = tmp_path / "checkpoints"
    save_arrays(folder / "9999999", {"values/x": np.zeros(2, np.float32)}, {"round": 5})
    cut = folder / ".0000001-00000000.safetensors.tmp"
    cut.write_bytes(b"cut off")
    resumed = go(config, tmp_path, resume=True)
    assert "not a checkpoint of this version" in resumed.complaints[0]
    assert resumed.finished
    assert not cut.exists()


def test_a_run_whose_records_are_gone_is_not_resumed_as_if_they_were_there(tmp_path):
    config = small_config()
    go(config, tmp_path, on_record=lambda record: record.get("round") == 5)
    (tmp_path / "records.jsonl").write_bytes(b"")
    with pytest.raises(ValueError, match="delete the run's folder to begin it anew"):
        go(config, tmp_path, resume=True)
    assert (tmp_path / "records.jsonl").read_bytes() == b""


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    go(small_config(), tmp_path)
    with pytest.raises(ValueError, match="holds a run already"):
        go(small_config(), tmp_path)


def test_a_resumed_run_with_another_setting_is_refused(tmp_path):
    config = small_config()
    go(config, tmp_path, on_record=lambda record: True)
    other = replace(config, training=replace(config.training, batch_size=10))
    with pytest.raises(ValueError, match=r"training.batch_size=10, but the run in .* has 20"):
        go(other, tmp_path, resume=True)


def test_a_run_without_a_readable_record_or_checkpoint_begins_anew(tmp_path):
    (tmp_path / "records.jsonl").write_bytes(b"nonsense\n")
    resumed = go(small_config(), tmp_path, resume=True)
    assert [record["kind"] for record in resumed.records][:2] == ["run", "initial"]


def test_a_folder_in_which_a_run_is_going_on_is_refused(tmp_path):
    def second(record):
        with pytest.raises(FolderInUseError, match=f"process {os.getpid()} on"):
            go(small_config(), tmp_path, resume=True)
        return True

    go(small_config(), tmp_path, on_record=second)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda images, labels: (images[1:], labels[1:]),
            r"client 1 has changed .*\(67 samples then, 66 now\)",
        ),
        (
            lambda images, labels: (images, labels.flip(0)),
            r"client 1 has changed .*\(67 samples then, 67 now\)",
        ),
    ],
)
def test_a_run_whose_data_has_changed_is_not_resumed(tmp_path, change, words):
    config, clients, test = small_config(), small_clients(), small_data(40, 99)
    stop = {"on_record": lambda record: record.get("round") == 2}
    train(small_model(), clients, test=test, config=config, out=tmp_path, **stop)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.suffix}
    other = [clients[0], TensorDataset(*change(*clients[1].tensors)), *clients[2:]]
    with pytest.raises(ValueError, match=words):
        train(small_model(), other, test=test, config=config, out=tmp_path, resume=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.suffix} == before
    assert train(small_model(), clients, test=test, config=config, out=tmp_path, resume=True).finished
