"""Real processes over loopback, TLS and node keys: the simulator's bits, and a drill of everything that fails."""

import functools
import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from realm import Forger, free_port, living, realm

from prunefl import config as settings
from prunefl.dashboard.run_view import RunView
from prunefl.engines.flower import keys
from prunefl.engines.flower.envelope import seal, unseal
from prunefl.runs.api import run_config
from prunefl.wire.model_file import load_model

CONFIG = """
[run]
rounds = {rounds}
eval_every = 2
workers = 1
[data]
name = "digits"
partition = "iid"
clients = 3
[model]
name = "lenet300100"
[training]
local_steps = 2
batch_size = 20
learning_rate = 0.1
[pruning]
interval = {interval}
[initial]
samples = 60
interval = 2
max_passes = 8
[server]
quorum = 0.6
deadline = {deadline}
"""


def simulated(config: Path, out: Path, monkeypatch):
    """Run the same config in the simulator."""
    monkeypatch.setenv("PRUNEFL_CACHE", str(out.parent / "cache"))
    return run_config(settings.load(config), out)


def without_torch(folder: Path) -> str:
    """Return a folder whose modules stand in for what `prunefl[client]` does not install."""
    folder.mkdir()
    for name in ("torch", "matplotlib", "jinja2"):
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('not installed', name={name!r})")
    return str(folder)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_simulator_and_real_processes_end_with_the_same_bits(backend, tmp_path, monkeypatch):
    """By plan, clients that have no torch."""
    text = CONFIG.format(rounds=6, interval=2, deadline=60).replace("[run]", f'[run]\nbackend = "{backend}"')
    with realm(tmp_path / "r", text) as town:
        expected = simulated(town.config, tmp_path / "simulated", monkeypatch)
        town.start_server()
        first = without_torch(tmp_path / "first") if backend == "native" else ""
        clients = [town.start_client(client, first=first) for client in range(3)]
        town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
        assert town.processes["server"].returncode == 0, town.said("server")
        town.wait("the clients' end", lambda: all(client.poll() == 0 for client in clients), 60)
        assert f"{backend} backend" in town.said("client-0")
        assert town.mine() == []
    found_state, _ = load_model(town.run / "model.safetensors")
    expected_state, _ = load_model(expected.folder / "model.safetensors")
    assert found_state.masks == expected_state.masks
    assert {n: v.tobytes() for n, v in found_state.values.items()} == {
        n: v.tobytes() for n, v in expected_state.values.items()
    }
    numbers = ("kind", "round", "loss", "density", "accuracy", "bytes_up", "bytes_down", "reconfigured")
    found = [json.loads(line) for line in (town.run / "records.jsonl").read_text().splitlines()]
    assert [{n: r.get(n) for n in numbers} for r in found] == [
        {n: r.get(n) for n in numbers} for r in expected.records
    ]
    assert any(record.get("reconfigured") for record in found)


def slowly(content: bytes) -> bytes:
    """Return an envelope as it is, after a while."""
    time.sleep(0.7)
    return content


def flipped(content: bytes) -> bytes:
    """Return a reply with one bit of its model wrong; other envelopes as they are."""
    envelope = unseal(content)
    if envelope.kind != "reply":
        return content
    model = bytearray(envelope.parts[0])
    model[len(model) // 2] ^= 4
    return seal(type(envelope)(envelope.kind, envelope.values, (bytes(model), *envelope.parts[1:])))


def strangers(town, tmp_path):
    """Start who does not belong: a key that nobody registered, another authority, no key, no encryption."""
    keys.make_keys(tmp_path / "others", ["localhost"], 1, days=2)
    forged = tmp_path / "forged"
    shutil.copytree(tmp_path / "others" / "client-0", forged)
    shutil.copy(town.folder / "keys" / "ca.pem", forged)
    town.start_client(0, forged, "unregistered")
    town.start_client(0, tmp_path / "others" / "client-0", "wrong-authority")
    town.start_client(0, tmp_path / "nowhere", "no-encryption")
    trust = ["--root-certificates", str(town.folder / "keys" / "ca.pem"), "--isolation", "process"]
    flower = ["--superlink", town.address, *trust, "--port", str(free_port())]
    town.start("no-key", *flower, code="from flwr.supernode.cli import flower_supernode; flower_supernode()")


REFUSALS = {
    "unregistered": "does not know this node's key",
    "wrong-authority": "certificate is not accepted",
    "no-encryption": "wants encryption and a key",
    "no-key": "Failed to initialize the connection",
}


def took_part(town, client: int, after: int) -> bool:
    """Return whether a client's update was in some round after this one."""
    return any(record["round"] > after and str(client) not in record["refused"] for record in town.rounds())


def told(view: RunView) -> dict:
    """Return what a dashboard that looks now would say of the run."""
    view.look()
    return view.summary()


def lane(view: RunView, client: int) -> str:
    """Return what a dashboard that looks now would call a client's state."""
    view.look()
    rows = view.lanes.rows(view.status, is_live=True)
    return rows[client][1] if rows else ""


def all_took_part(town, after: int) -> bool:
    return all(took_part(town, client, after) for client in range(3))


def left_out(town, client: int, after: int) -> bool:
    return any(record["round"] > after and str(client) in record["refused"] for record in town.rounds())


def test_fault_drill(tmp_path, monkeypatch):
    rounds = 45
    with realm(tmp_path / "r", CONFIG.format(rounds=rounds, interval=20, deadline=5)) as town:
        town.start_server()
        for client in range(3):
            town.start_client(client)
        town.wait("round 3", lambda: town.round() >= 3, 240)

        # So that the drill is over before the run is, on any machine: no round is shorter than a second.
        forger = Forger(town.state("client-0"), slowly, town.home(0))
        strangers(town, tmp_path)
        family = town.family("client-1")
        view = RunView(town.run, "run", "r0")
        town.wait("a lane for client 1", lambda: lane(view, 1) in ("training", "waiting"))
        town.kill("client-1")
        town.wait("its lane to turn", lambda: lane(view, 1) in ("silent", "away"))
        town.wait("the end of all that client 1 had started", lambda: not set(family) & set(living()), 30)
        mark = town.round()
        town.wait("a round without client 1", lambda: left_out(town, 1, mark))
        mark = town.round()
        town.start_client(1)

        worker = next(
            n for n in town.family("client-2") if b"flower.worker" in Path(f"/proc/{n}/cmdline").read_bytes()
        )
        os.kill(worker, signal.SIGSTOP)
        town.wait("a round without client 2", lambda: left_out(town, 2, mark))
        os.kill(worker, signal.SIGCONT)
        town.wait("client 1 again", lambda: took_part(town, 1, mark))
        mark = town.round()
        town.wait("client 2 again", lambda: took_part(town, 2, mark))

        for _ in range(2):
            mark, done, family = town.round(), town.rounds(), town.family("server")
            town.kill("server")
            town.wait(
                "the end of all that it had started",
                lambda family=family: not set(family) & set(living()),
                10,
            )
            town.wait("the dashboard to see that", lambda: told(view)["state"] == "stopped")
            town.start_server("--resume")
            all_there = functools.partial(all_took_part, town, mark + 2)
            town.wait("all clients after the server's death", all_there, 240)
            town.wait("the dashboard to go on", lambda mark=mark: told(view)["round"] >= mark + 2)
            # The last may have been written down without having been kept; all others must be as they were.
            assert town.rounds()[: len(done) - 1] == done[:-1]

        for name, words in REFUSALS.items():
            town.wait(f"the end of {name}", lambda name=name: town.processes[name].poll() is not None)
            assert words in town.said(name)
            assert town.processes[name].returncode != 0

        forger.change = flipped
        mark = town.round()
        town.wait("a corrupted update", lambda: left_out(town, 0, mark))
        forger.close()
        mark = town.round()
        town.wait("client 0 again", lambda: took_part(town, 0, mark))

        assert town.round() < rounds - 1, "the drill has to be over before the run is"

        town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 240)
        assert town.processes["server"].returncode == 0, town.said("server")
        town.wait("the end of all", lambda: town.mine() == [], 60)
    assert [record["round"] for record in town.rounds()] == list(range(1, rounds + 1))
    undisturbed = simulated(town.config, tmp_path / "simulated", monkeypatch)
    end = json.loads((town.run / "records.jsonl").read_text().splitlines()[-1])
    assert end["kind"] == "end"
    assert end["accuracy"] == pytest.approx(undisturbed.accuracy, abs=0.03)


def test_ctrl_c_leaves_no_process(tmp_path):
    with realm(tmp_path / "r", CONFIG.format(rounds=500, interval=20, deadline=60), clients=1) as town:
        config = town.config.read_text().replace("clients = 3", "clients = 1")
        town.config.write_text(config)
        town.start_server()
        town.start_client(0)
        town.wait("a round", lambda: town.round() >= 1, 240)
        assert len(town.family("server")) >= 4
        assert len(town.family("client-0")) == 3
        for name in ("server", "client-0"):
            town.processes[name].send_signal(signal.SIGINT)
        for name in ("server", "client-0"):
            assert town.processes[name].wait(60) == 0
        assert town.mine() == []
        assert "go on later with --resume" in town.said("server")
        assert not list(town.folder.rglob(".secret"))
