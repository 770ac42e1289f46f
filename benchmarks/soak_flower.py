"""A long run with random deaths: a thousand rounds of a tiny model, clients killed now and then.

At its end every round has been counted once, and neither memory nor open files of the server's processes have grown.

Run: python benchmarks/soak_flower.py [ROUNDS] [SECONDS BETWEEN DEATHS]
"""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from realm import Realm, realm

CONFIG = """
[run]
rounds = {rounds}
eval_every = 100
workers = 1
[data]
name = "digits"
partition = "iid"
clients = 3
[model]
name = "lenet300100"
[training]
local_steps = 1
batch_size = 10
learning_rate = 0.05
[pruning]
interval = 100
[initial]
samples = 60
interval = 2
max_passes = 4
[server]
quorum = 0.3
deadline = 5
"""


def weight(town: Realm, name: str) -> tuple[int, int, int]:
    """Return resident kilobytes, open files and processes of a command with all that it started."""
    kilobytes = files = 0
    family = town.family(name)
    for number in family:
        try:
            lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
            kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            files += len(os.listdir(f"/proc/{number}/fd"))
        except (OSError, StopIteration):
            continue
    return kilobytes, files, len(family)


def soak(town: Realm, rounds: int, pause: float) -> None:
    """Kill and restart clients at random until the run is over; print the weights of server and a client."""
    town.start_server()
    for client in range(3):
        town.start_client(client)
    town.wait("round 1", lambda: town.round() >= 1, 180)
    source, deaths, shown, next_death = random.Random(0), 0, 0, time.monotonic() + pause
    while town.processes["server"].poll() is None:
        time.sleep(1.0)
        done = town.round()
        if done >= shown + 50:
            shown = done
            server, client = weight(town, "server"), weight(town, "client-0")
            print(
                f"round {done}: {deaths} deaths; (KB, files, processes) server {server}, client 0 {client}",
                flush=True,
            )
        if time.monotonic() > next_death and done < rounds - 20:
            victim = source.randrange(1, 3)
            town.kill(f"client-{victim}")
            time.sleep(source.uniform(0.0, 3.0))
            town.start_client(victim)
            deaths, next_death = deaths + 1, time.monotonic() + source.uniform(0.5, 1.5) * pause
    assert town.processes["server"].returncode == 0, town.said("server")
    numbers = [record["round"] for record in town.rounds()]
    assert numbers == list(range(1, rounds + 1)), "a round was lost"
    took_part = [3 - len(record["refused"]) for record in town.rounds()]
    end = json.loads((town.run / "records.jsonl").read_text().splitlines()[-1])
    print(
        f"{rounds} rounds, none lost; {deaths} deaths; {sum(took_part) / rounds:.2f} updates a round; {end}"
    )


def main() -> None:
    """Soak a realm in a temporary folder."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    with (
        tempfile.TemporaryDirectory() as folder,
        realm(Path(folder) / "r", CONFIG.format(rounds=rounds)) as town,
    ):
        soak(town, rounds, pause)


if __name__ == "__main__":
    main()
