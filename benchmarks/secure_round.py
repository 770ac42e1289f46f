"""What secure sums cost a round of three real clients: the same run over loopback, with keys, openly and securely.

Run: python benchmarks/secure_round.py [ROUNDS] [SECTION.KEY=VALUE ...]
Prints the median wall seconds of a round without new keys, its exchanges and bytes; set-up apart.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from prunefl.engines.flower import keys
from prunefl.engines.flower.join import free_port

CLIENTS = 3
SETTINGS = [
    "data.clients=3",
    "data.partition=iid",
    "model.name=lenet300100",
    "run.method=conventional",
    "run.workers=1",
    "run.eval_every=1000",
    "server.max_change=0",
    "server.max_opposition=0",
    "server.max_statistic=0",
]
COMMAND = "import sys; from prunefl.commands.main import main; main()"


def measure(folder: Path, rounds: int, settings: list[str], secure: bool) -> dict[str, float]:
    """Return what rounds took, the first two left out: they make keys, and wake everybody."""
    keys.make_keys(folder / "keys", ["localhost"], CLIENTS, days=1)
    port, run = free_port(), folder / "run"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.txt").open("wb") as output:
            command = [sys.executable, "-c", COMMAND, *arguments]
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)

    place = ["--host", "127.0.0.1", "--port", str(port), "--out", str(run), "--keys", str(folder / "keys")]
    chosen = [f"run.rounds={rounds}", f"privacy.secure={str(secure).lower()}"]
    server = start("server", "server", "digits", *SETTINGS, *chosen, *settings, *place)
    time.sleep(3)
    clients = [
        start(
            f"client-{n}", "client", "--server", f"localhost:{port}", "--client", str(n),
            "--state", str(folder / f"state-{n}"), "--share", f"{n}/{CLIENTS}",
            "--keys", str(folder / "keys" / f"client-{n}"),
        )
        for n in range(CLIENTS)
    ]  # fmt: skip
    if server.wait(900):
        raise RuntimeError((folder / "server.txt").read_text()[-2000:])
    for client in clients:
        client.wait(60)
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    usual = [record for record in records if record["kind"] == "round"][2:]
    return {
        "seconds": statistics.median(record["wall_seconds"] for record in usual),
        "bytes": statistics.median(record["bytes_up"] + record["bytes_down"] for record in usual),
        "exchanges": statistics.median(record.get("secure", {}).get("exchanges", 1) for record in usual),
        "setup_bytes": sum(record.get("secure", {}).get("setup_bytes", 0) for record in records),
    }


def main() -> None:
    given = sys.argv[1:]
    rounds = int(given.pop(0)) if given and given[0].isdigit() else 12
    found = {}
    for secure in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            found[secure] = measure(Path(folder), rounds, given, secure)
        print("securely" if secure else "openly", found[secure], flush=True)
    for name in ("seconds", "bytes"):
        print(f"{name}: {found[True][name] / found[False][name]:.3f} of an open round's")


if __name__ == "__main__":
    main()
