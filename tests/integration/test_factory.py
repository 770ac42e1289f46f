"""The factory example, run as printed: three cameras, a server without a picture, and the simulator's bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from realm import free_port, living, read

from prunefl import config as settings
from prunefl.runs.api import run_config
from prunefl.runs.records import read_records
from prunefl.wire.model_file import load_model

pytest.importorskip("PIL.Image")

ROOT = Path(__file__).parents[2]
COMMAND = "examples/factory/run.sh"


def bits(folder: Path) -> tuple[bytes, dict[str, bytes]]:
    state, _ = load_model(folder / "model.safetensors")
    return state.masks.digest, {name: value.tobytes() for name, value in state.values.items()}


def test_the_factory_ends_with_the_simulators_bits_and_leaves_no_process(tmp_path, monkeypatch):
    assert f"\n{COMMAND}\n" in (ROOT / "docs" / "federation.md").read_text()
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PORT", str(free_port()))
    done = subprocess.run([ROOT / COMMAND], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "factory"
    mark = os.fsencode(folder)
    assert [n for n in living() if mark in read(n, "cmdline") + read(n, "environ")] == []
    said = [(folder / f"client-{n}.log").read_text() for n in range(3)]
    # four fifths of 150, 150 and 80 pictures: all of them, and nothing is cut
    assert [
        f"with {n} samples, {m} more held out" in text for (n, m), text in zip(HELD, said, strict=True)
    ] == [True] * 3
    assert "it has none of the class crack" in said[2]
    assert "no test set" in (folder / "server.log").read_text()

    assignments = ["data.name=folder-per-client", f"data.dir={folder / 'cameras'}"]
    expected = run_config(settings.load(folder / "task.toml", assignments), tmp_path / "simulated")
    assert bits(folder / "run") == bits(expected.folder)
    found = read_records(folder / "run" / "records.jsonl")
    same = ("round", "loss", "density", "bytes_up", "bytes_down", "clients")
    for one, other in zip(rounds(found), rounds(expected.records), strict=True):
        assert {name: one[name] for name in same} == {name: other[name] for name in same}
        assert scores(one) == scores(other)
    final = rounds(expected.records)[-1]["evaluation"]["accuracy"]
    assert done.stdout.splitlines()[-1] == f"accuracy at the clients: {final:.4f}"
    # chance is a third; what three cameras learn together is worth the trouble
    assert final > 0.8


HELD = ((120, 30), (120, 30), (64, 16))


def rounds(records):
    return [record for record in records if record["kind"] == "round"]


def scores(record):
    names = ("accuracy", "client_accuracy", "worst_tenth", "loss", "by_client")
    return {name: record["evaluation"][name] for name in names} if "evaluation" in record else {}
