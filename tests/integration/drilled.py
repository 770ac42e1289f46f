"""What the drills share: the config of a small federation, its start, and rounds that go on."""

import os

import pytest
from realm import Realm

drill = pytest.mark.skipif("PRUNEFL_DRILLS" not in os.environ, reason="a long drill: make drills")

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
learning_rate = 0.1
[pruning]
interval = 3
[initial]
samples = 60
interval = 2
max_passes = 8
{initial}
[server]
quorum = 0.6
deadline = {deadline}
{server}
"""


def config(rounds: int = 500, deadline: int = 20, initial: str = "", server: str = "") -> str:
    return CONFIG.format(rounds=rounds, deadline=deadline, initial=initial, server=server)


def start(town: Realm, rounds: int = 2) -> None:
    town.start_server()
    for client in range(3):
        town.start_client(client)
    town.wait(f"round {rounds}", lambda: town.round() >= rounds, 240)


def go_on(town: Realm, rounds: int = 2) -> list[dict]:
    """Return the records of the next rounds."""
    mark = town.round()
    town.wait(f"{rounds} more rounds", lambda: town.round() >= mark + rounds, 120)
    return [record for record in town.rounds() if record["round"] > mark]


def finish(town: Realm) -> list[dict]:
    town.wait("the run's end", lambda: town.processes["server"].poll() is not None, 300)
    assert town.processes["server"].returncode == 0, town.said("server")
    return town.rounds()


def took_part(records: list[dict], client: int) -> bool:
    return any(str(client) not in record["refused"] for record in records)
