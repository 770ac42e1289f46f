"""Attacks on a federation of real processes: by members, by strangers, by clients that lie, by a greedy server.

The first runs with all tests; `make drills` runs the whole, and those of test_drills_load.py.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from attackers import (
    Flood,
    Insider,
    claim_samples,
    inflate_importance,
    lie,
    memory,
    poison,
    send_endless_header,
)
from drilled import config, drill, finish, go_on, start, took_part
from realm import Forger, Realm, realm

from prunefl.engines.flower import key_files, keys, sockets
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.join import socket_path
from prunefl.engines.flower.signing import sign_message, unpack_signed


def tell(town: Realm, client: int, data: bytes) -> Envelope:
    """Hand a worker bytes as if they came from the server; return its answer."""
    answer = sockets.call(socket_path(town.state(f"client-{client}")), data, 60)
    return unseal(unpack_signed(answer).content if answer[:4] == b"PFS1" else answer)


def tell_newest(town: Realm, client: int, sign: Callable[[int], bytes]) -> Envelope:
    """Hand a worker a message newer than any it has seen, though the server goes on sending its own meanwhile."""
    for _ in range(20):
        answer = tell(town, client, sign(time.time_ns() // 1000))
        if "has been here before" not in answer.values["what"]:
            break
    return answer


def test_members_and_strangers_get_nowhere_and_the_rounds_go_on(tmp_path):
    with realm(tmp_path / "r", config()) as town:
        start(town)
        forger = Forger(town.state("client-0"), lambda answer: answer)
        go_on(town)
        member, server = (
            key_files.read_node_key(town.home(2) / key_files.NODE),
            key_files.read_signing_key(town.folder / "keys"),
        )
        said = unpack_signed(forger.asked[-1]).statement
        forger.close()

        # a forged server: unsigned, signed by a member, signed for another client, a replay
        farewell, later = seal(Envelope("end")), replace(said, number=2**60)
        for data, words in (
            (farewell, "it is not signed"),
            (sign_message(member, later, farewell), "not that of server"),
            (sign_message(server, replace(later, addressee="client-1"), farewell), "must be from 'server'"),
            (forger.asked[-1], "has been here before"),
        ):
            answer = tell(town, 0, data)
            assert answer.kind == "error"
            assert words in answer.values["what"]
        # the server itself, gone mad: the client says so, lives, and takes part again
        for values, words in (
            ({"run": said.run, "round": -5, "learning_rate": 0.1}, "round=-5, must be between"),
            ({"run": said.run, "round": 1, "learning_rate": 1e300}, "learning_rate=1e+300"),
            ({"run": "\x1b[2Jrun", "round": 1, "learning_rate": 0.1}, "must be letters"),
        ):
            order = seal(Envelope("order", {**values, "work": work_of(forger), "config": ""}, (b"",)))
            answer = tell_newest(town, 0, lambda n, o=order: sign_message(server, replace(said, number=n), o))
            assert words in answer.values["what"]
        assert took_part(go_on(town), 0)

        # a member answers for another
        forger = Forger(town.state("client-0"), lambda answer: answer, town.home(2))
        town.wait(
            "a refusal", lambda: "not that of client-0" in str(town.rounds()[-3:]) + town.said("server"), 60
        )
        forger.close()
        assert took_part(go_on(town, 3), 0)

        # a member at the SuperLink, in the name of others
        with Insider(town, 2) as insider:
            node = insider.node
            for source, target, reply_to in ((1, node + 1, ""), (node, 1, ""), (node + 1, 1, "0" * 64)):
                with pytest.raises(httpx.HTTPStatusError, match="403"):
                    insider.push(source, target, reply_to)

        # a stranger's header without end, and 300 connections of all kinds
        sent, answer = send_endless_header(town)
        assert sent < 16 << 20
        assert answer.startswith(b"HTTP/1.1 400") or answer == b""
        before = memory(town)
        flood = Flood(town, 300, a_second=100)
        assert took_part(go_on(town), 0)
        flood.close()
        assert memory(town) - before < 100 << 20
        assert town.processes["server"].poll() is None


def work_of(forger: Forger) -> dict:
    """Return the work of the last order."""
    orders = [unseal(unpack_signed(data).content) for data in forger.asked]
    return [order.values["work"] for order in orders if order.kind == "order"][-1]


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return the records of a run in which nobody lies."""
    with realm(tmp_path_factory.mktemp("honest"), config(rounds=12)) as town:
        start(town)
        return finish(town)


@drill
@pytest.mark.parametrize("change", [poison, inflate_importance, claim_samples])
def test_a_client_that_lies_is_held_to_what_is_usual(tmp_path, honest, change):
    with realm(tmp_path / "lied", config(rounds=12)) as town:
        # before the server, so that it lies from the first word
        town.start_client(2)
        town.wait("its worker", lambda: socket_path(town.state("client-2")).exists(), 120)
        forger = Forger(town.state("client-2"), lie(change), town.home(2))
        town.start_server()
        for client in range(2):
            town.start_client(client)
        lied = finish(town)
        forger.close()
        assert change is claim_samples or "client 2: " in town.said("server")
        assert change is not claim_samples or "joined with 1000000000000 samples" in town.said("server")
    assert abs(lied[-1]["accuracy"] - honest[-1]["accuracy"]) < 0.05
    assert abs(lied[-1]["density"] - honest[-1]["density"]) < 0.1


@drill
def test_a_model_that_is_lost_is_gone_back_from_and_its_culprit_left_out(tmp_path):
    with realm(tmp_path / "r", config(rounds=12, server="max_change = 0")) as town:
        start(town, 4)
        forger = Forger(town.state("client-2"), lie(poison), town.home(2))
        records = finish(town)
        forger.close()
        words = town.said("server")
        assert "going back to round" in words
        assert "client 2 left out of the run" in words
        assert [record["round"] for record in records] == list(range(1, 13))
        assert records[-1]["clients"] == [0, 1]
        assert records[-1]["accuracy"] > 0.5
        assert all("e+3" not in str(record["loss"]) for record in records)


@drill
def test_who_hangs_while_it_prunes_first_is_passed_over(tmp_path):
    slow = config(rounds=3, initial="clients = 1\ndeadline = 20").replace(
        "max_passes = 8", "max_passes = 100000"
    )
    with realm(tmp_path / "r", slow.replace("interval = 2\nmax", "interval = 1000\nmax")) as town:
        town.start_server()
        for client in range(3):
            town.start_client(client)
        town.wait("all clients", lambda: town.said("server").count("joined with") == 3, 240)
        worker = next(
            n for n in town.family("client-0") if b"flower.worker" in Path(f"/proc/{n}/cmdline").read_bytes()
        )
        os.kill(worker, signal.SIGSTOP)
        town.wait("another one", lambda: "another one is asked" in town.said("server"), 120)
        os.kill(worker, signal.SIGCONT)


@drill
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("[run]\nthreads = 100000", "run.threads=100000, but this client's limit threads"),
        ("[training]\nlocal_steps = 1000000", "training.local_steps=1000000, but this client's limit steps"),
        ("[training]\nbatch_size = 1000000", "training.batch_size=1000000, but this client's limit batch"),
        ("[initial]\nmax_passes = 1000000000", "initial.max_passes"),
    ],
)
def test_a_greedy_server_is_refused_in_one_line_at_both_ends(tmp_path, setting, words):
    section, _, line = setting.partition("\n")
    key = line.partition(" ")[0]
    text = "\n".join(old for old in config().splitlines() if not old.startswith(f"{key} ="))
    with realm(tmp_path / "r", text.replace(section, setting)) as town:
        town.start_server()
        client = town.start_client(0)
        assert client.wait(150) == 2
        assert words in town.said("client-0").strip().splitlines()[-1]
        town.wait("the server's word", lambda: words in town.said("server"), 60)
        assert str(tmp_path) not in town.said("server").partition("cannot take part")[2]


@drill
def test_a_revoked_client_is_out_within_seconds(tmp_path):
    with realm(tmp_path / "r", config(deadline=5)) as town:
        start(town)
        keys.revoke(town.folder / "keys", 2)
        town.wait("its end", lambda: "client 2: its key was revoked" in town.said("server"), 30)
        go_on(town, 2)
        assert all("2" in record["refused"] or 2 not in record["clients"] for record in go_on(town, 2))
