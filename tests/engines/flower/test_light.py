"""What must be quick to start and small in memory: most processes of a client only carry messages."""

import os
import subprocess
import sys

import pytest

ROOM = "prunefl.engines.flower"
CARRIERS = (
    "access bell child chunks client_app control envelope forks join keys mailbox node processes serve server_app "
    "shortcut sockets status supervise waiting"
)
WORKER = "client_store codec handshake membership session simulated worker"


def is_loaded(module: str, absent: set[str]) -> bool:
    """Return whether a fresh interpreter that imports the module has loaded one of the others."""
    code = f"import sys, {module}; sys.exit(bool({absent} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode != 0


@pytest.mark.parametrize("name", [*CARRIERS.split(), *WORKER.split()])
def test_no_process_of_a_client_loads_torch_before_it_builds_a_network(name):
    assert not is_loaded(f"{ROOM}.{name}", {"torch"})


@pytest.mark.parametrize(
    "module", [ROOM, f"{ROOM}.join", "prunefl.commands.status", "prunefl.commands.client"]
)
def test_what_a_user_types_waits_for_neither_torch_nor_flower(module):
    assert not is_loaded(module, {"torch", "flwr"})
