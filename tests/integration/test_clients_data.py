"""Real clients bring their own images to a server that has none: the simulator's bits, or a line that says why not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from realm import Realm, read, realm

from prunefl import config as settings
from prunefl.runs.api import run_config
from prunefl.wire.model_file import load_model

Image = pytest.importorskip("PIL.Image")

CONFIG = """
[run]
rounds = 4
eval_every = 2
workers = 1
[data]
name = "at-clients"
clients = {clients}
classes = ["crack", "dent", "ok"]
shape = [3, 12, 12]
[model]
name = "lenet300100"
[training]
local_steps = 2
batch_size = 25
learning_rate = 0.1
[pruning]
interval = 2
[initial]
samples = 30
interval = 2
max_passes = 6
[server]
quorum = 1.0
deadline = 60
"""
DEVICES = {
    "a": {"crack": 14, "dent": 13, "ok": 13},
    "b": {"dent": 20, "ok": 20},
    "c": {"crack": 5, "dent": 5, "ok": 10},
}


def make_images(folder: Path, counts: dict[str, int], seed: int) -> Path:
    """Write small noisy images; the brightest corner tells the class."""
    source = np.random.default_rng(seed)
    for label, count in counts.items():
        (folder / label).mkdir(parents=True)
        for i in range(count):
            pixels = source.integers(0, 120, (12, 12, 3), dtype=np.uint8)
            pixels[4 * (sum(map(ord, label)) % 3) :][:4, :4] += 100
            Image.fromarray(pixels).save(folder / label / f"{i:02d}.png")
    return folder


def status_of(town: Realm) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "prunefl", "status", str(town.run)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def bits(folder: Path) -> tuple[bytes, dict[str, bytes]]:
    state, _ = load_model(folder / "model.safetensors")
    return state.masks.digest, {name: value.tobytes() for name, value in state.values.items()}


def test_devices_with_their_own_folders_end_with_the_simulators_bits(tmp_path, monkeypatch):
    fleet = tmp_path / "fleet"
    for seed, (device, counts) in enumerate(DEVICES.items()):
        make_images(fleet / device, counts, seed)
    with realm(tmp_path / "r", CONFIG.format(clients=3)) as town:
        town.start_server()
        clients = [town.start_client(n, data=fleet / device) for n, device in enumerate(DEVICES)]
        town.wait("a round", lambda: town.round() >= 1, 240)
        for number in town.family("server"):
            maps = read(number, "maps")
            assert b"/PIL/" not in maps
            opened = b" ".join(str(path.resolve()).encode() for path in Path(f"/proc/{number}/fd").glob("*"))
            assert str(fleet).encode() not in maps + opened
        town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
        assert town.processes["server"].returncode == 0, town.said("server")
        town.wait("the clients' end", lambda: all(client.poll() == 0 for client in clients), 60)
        assert "no test set, so no accuracy" in town.said("server")
        assert any("no test set at the server" in line for line in status_of(town))
        assert [f"with {n} samples" in town.said(f"client-{i}") for i, n in enumerate((40, 40, 20))] == [
            True
        ] * 3
        assert "it has none of the class crack" in town.said("client-1")
        assert "fewer than training.batch_size=25" in town.said("client-2")
    monkeypatch.setenv("PRUNEFL_CACHE", str(tmp_path / "cache"))
    assignments = ["data.name=folder-per-client", f"data.dir={fleet}"]
    expected = run_config(settings.load(town.config, assignments), tmp_path / "simulated")
    assert bits(town.run) == bits(expected.folder)
    found = [json.loads(line) for line in (town.run / "records.jsonl").read_text().splitlines()]
    names = ("kind", "round", "loss", "density", "bytes_up", "bytes_down", "reconfigured", "clients")
    assert [{n: r.get(n) for n in names} for r in found] == [
        {n: r.get(n) for n in names} for r in expected.records
    ]
    assert all("accuracy" not in record for record in found if record["kind"] == "round")
    assert found[-1]["accuracy"] is None


def test_what_does_not_fit_is_refused_at_both_ends_and_the_rest_goes_on(tmp_path):
    good = make_images(tmp_path / "good", {"crack": 20, "dent": 20}, 1)
    other = make_images(tmp_path / "other", {"dent": 20, "ok": 20, "scratch": 20}, 2)
    config = CONFIG.format(clients=2).replace("rounds = 4", "rounds = 500")
    with realm(tmp_path / "r", config, clients=2) as town:
        town.start_server()
        refused = town.start_client(1, data=other)
        town.start_client(0, data=good)
        assert refused.wait(120) == 2
        line = town.said("client-1").strip().splitlines()[-1]
        for words in ("class 'scratch'", "the run has crack, dent, ok", "has dent, ok, scratch"):
            assert words in line
        town.wait(
            "the server's word", lambda: "client 1 cannot take part: class 'scratch'" in town.said("server")
        )
        # the status file is written at most once a second
        town.wait(
            "the status", lambda: any(line.split()[:2] == ["1", "refused"] for line in status_of(town)), 30
        )
        shown = status_of(town)
        reason = next(line for line in shown if line.startswith("last refusal of client 1: "))
        assert "the run has crack, dent, ok" in reason
        far = [sys.executable, "-m", "prunefl", "status", "--server", town.address]
        far += ["--keys", str(town.folder / "keys" / "viewer"), "--json"]
        seen = json.loads(subprocess.run(far, capture_output=True, text=True, check=True).stdout)
        assert "class 'scratch'" in seen["nodes"][1]["refusal"]
        assert seen["classes"] == ["crack", "dent", "ok"]

        shutil.rmtree(other / "scratch")
        town.start_client(1, data=other)
        town.wait("a round", lambda: town.round() >= 1, 120)
        # the folder changes while the client takes part, and then it comes back to the same run
        make_images(other, {"crack": 1}, 3)
        assert town.processes["client-1"].wait(120) == 2
        assert (
            "the data has changed since this client joined" in town.said("client-1").strip().splitlines()[-1]
        )
        town.wait("the server's word", lambda: "client 1 leaves: the data has" in town.said("server"))
        again = town.start_client(1, data=other)
        assert again.wait(240) == 2
        line = town.said("client-1").strip().splitlines()[-1]
        assert "the data has changed since this client joined" in line
        assert "40 samples then, 41 now" in line
        town.wait(
            "the server's word", lambda: "client 1 cannot take part: the data has" in town.said("server")
        )
