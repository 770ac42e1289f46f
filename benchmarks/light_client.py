"""What a client without torch takes: disk, memory of each of its processes, and time until it is admitted.

Three clients with keys join a server over loopback and train Conv-2 at 10 % density (28x28, 62 classes) by plan. Each
has a copy of its own of an environment with `prunefl[client]`, as on a machine of its own: their libraries share no
memory. They start one after another, the next when the one before was admitted. Memory is read every 50 ms: RSS is what
a process has, PSS what several share by halves and thirds; the sum of PSS is what the machine gives.

Run: python benchmarks/light_client.py [--venv DIR] [--rounds N] [--method erk], where prunefl[flower] is installed; DIR
is made if it is not there (pip, from this checkout).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from prunefl.engines.flower import keys
from prunefl.engines.flower.join import free_port

CLIENTS, SAMPLES, CLASSES = 3, 200, 62
CONFIG = """
[run]
method = "{method}"
backend = "native"
rounds = {rounds}
eval_every = {rounds}
[data]
name = "at-clients"
clients = {clients}
classes = [{classes}]
shape = [1, 28, 28]
scaling = "unit"
[model]
name = "conv2"
[training]
local_steps = 5
batch_size = 20
[pruning]
density = 0.1
[initial]
samples = 100
"""
KINDS = {
    "flower.worker": "worker",
    "flower.node": "node",
    "prunefl client": "prunefl client",
}
"""What a command line holds, and what its process is called; a fork has its parent's, and is numbered."""


def make_venv(folder: Path) -> None:
    """Install this checkout with what a client needs, and nothing else."""
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        checkout = Path(__file__).parents[1]
        subprocess.run([folder / "bin/pip", "install", "--quiet", f"{checkout}[client]"], check=True)
        subprocess.run([folder / "bin/python", "-m", "compileall", "-q", "-j2", folder], check=False)


INSTALLER = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
"""What every new environment has: who runs a client does not need it."""


def sizes(folder: Path) -> tuple[dict[str, int], int]:
    """Return the bytes of each package and program, the largest first; and what all take in blocks of the disk."""
    found: dict[str, int] = defaultdict(int)
    blocks = 0
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        home = packages if path.is_relative_to(packages) else folder
        name = re.split(r"[-.]", path.relative_to(home).parts[0])[0]
        name = path.name if name == "bin" else name
        if name not in INSTALLER:
            found[name] += path.stat().st_size
            blocks += path.stat().st_blocks * 512
    return dict(sorted(found.items(), key=lambda item: -item[1])), blocks


def family(number: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [number]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(text) for text in read(children).split()]
    return found


def read(path: Path) -> str:
    """Return a file of /proc; nothing if its process is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def memory(number: int) -> tuple[int, int]:
    """Return RSS and PSS of a process in kilobytes."""
    rollup = read(Path(f"/proc/{number}/smaps_rollup"))
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+)", rollup, re.MULTILINE))
    return int(found.get("Rss", 0)), int(found.get("Pss", 0))


def called(number: int, parents: dict[int, str]) -> str:
    """Return what a process is, by its command line, and how many forks it is away from it."""
    line = read(Path(f"/proc/{number}/cmdline")).replace("\0", " ")
    name = next((name for word, name in KINDS.items() if word in line), "")
    above = re.search(r"^PPid:\s+(\d+)", read(Path(f"/proc/{number}/status")), re.MULTILINE)
    before = parents.get(int(above[1]), "") if above else ""
    return f"{before}'s fork" if before.startswith(name) and name else name


class Peaks:
    """The largest memory seen of each process and of all processes of a client together."""

    def __init__(self) -> None:
        self.each: dict[tuple[str, int], list[int]] = {}
        self.together = [0, 0]

    def look(self, number: int) -> None:
        """Read the memory of a client's processes now."""
        names: dict[int, str] = {}
        total = [0, 0]
        for one in family(number):
            names[one] = called(one, names)
            now = memory(one)
            if not names[one] or not now[0]:
                continue
            seen = self.each.setdefault((names[one], one), [0, 0])
            for which in (0, 1):
                seen[which] = max(seen[which], now[which])
                total[which] += now[which]
        self.together = [max(pair) for pair in zip(self.together, total, strict=True)]

    def table(self) -> dict[str, list[int]]:
        """Return the peak of each kind of process."""
        found: dict[str, list[int]] = {}
        for (name, _), peak in self.each.items():
            before = found.get(name, [0, 0])
            found[name] = [max(pair) for pair in zip(before, peak, strict=True)]
        return {**found, "all together": self.together}


def start(folder: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command with its output in a file of the folder."""
    environment = {**os.environ, "PRUNEFL_CACHE": str(folder / "cache")}
    with (folder / f"{name}.txt").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)


@contextmanager
def ended(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """See that all processes are gone when the block is left."""
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def measure(venvs: list[Path], folder: Path, method: str, rounds: int) -> tuple[list[float], list[Peaks]]:
    """Return each client's seconds until it was admitted, and its memory's peaks."""
    names = ", ".join(f'"{number}"' for number in range(CLASSES))
    text = CONFIG.format(method=method, rounds=rounds, clients=CLIENTS, classes=names)
    (folder / "task.toml").write_text(text)
    keys.make_keys(folder / "keys", ["localhost"], CLIENTS, days=1)
    draw = np.random.default_rng(0)
    images = draw.random((SAMPLES, 1, 28, 28), np.float32)
    np.savez(folder / "data.npz", x_train=images, y_train=np.arange(SAMPLES) % CLASSES)
    port, said = free_port(), folder / "server.txt"
    place = ["--host", "127.0.0.1", "--port", str(port), "--out", str(folder / "run")]
    command = [sys.executable, "-m", "prunefl", "server", "task.toml", "--keys", "keys", *place]
    processes, seconds, peaks = [start(folder, "server", command)], [], []
    with ended(processes):
        wait_for("clients train by", said, processes)
        for client, venv in enumerate(venvs):
            time.sleep(5)  # long after its start a server looks no longer as often for who comes
            began = time.perf_counter()
            own = ["--server", f"localhost:{port}", "--keys", f"keys/client-{client}", "--data", "data.npz"]
            line = [str(venv / "bin/python"), "-m", "prunefl", "client", *own]
            processes.append(start(folder, f"client-{client}", line))
            peaks.append(Peaks())
            wait_for(f"client {client} joined", folder / "run/logs/flower.log", processes)
            seconds.append(time.perf_counter() - began)
        while processes[0].poll() is None:
            for process, peak in zip(processes[1:], peaks, strict=True):
                peak.look(process.pid)
            time.sleep(0.05)
        if processes[0].returncode:
            raise SystemExit(read(said)[-1000:])
    return seconds, peaks


def wait_for(words: str, file: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Return when a file has these words; give up after two minutes, or when a process has ended."""
    limit = time.perf_counter() + 120
    while words not in read(file):
        if time.perf_counter() > limit or any(process.poll() is not None for process in processes):
            raise SystemExit(f"waited in vain for {words!r}: {read(file)[-1000:]}")
        time.sleep(0.01)


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--venv", type=Path, help="an environment with prunefl[client], made if it is not there"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--method", default="erk", help="erk begins at 10 %; prunefl whole, with initial pruning"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        venv = given.venv or folder / "venv"
        make_venv(venv)
        disk, blocks = sizes(venv)
        print(f"installed: {sum(disk.values()) / 1e6:.0f} MB in files, {blocks / 1e6:.0f} MB in blocks")
        print(", ".join(f"{name} {size / 1e6:.1f}" for name, size in list(disk.items())[:16]))
        copies = [folder / f"venv-{client}" for client in range(CLIENTS)]
        for copy in copies:
            shutil.copytree(venv, copy, symlinks=True)
        seconds, peaks = measure(copies, folder, given.method, given.rounds)
    print(f"admitted after {', '.join(f'{one:.1f}' for one in seconds)} s")
    tables = [peak.table() for peak in peaks]
    print(f"{'peak of client 0, 1, 2, in MB':28} {'RSS':>20} {'PSS':>20}")
    for name in tables[0]:
        rows = [table.get(name, [0, 0]) for table in tables]
        cells = [" ".join(f"{row[which] / 1000:6.1f}" for row in rows) for which in (0, 1)]
        print(f"{name:28} {cells[0]:>20} {cells[1]:>20}")


if __name__ == "__main__":
    main()
