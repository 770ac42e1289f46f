"""The dashboard of a real federation on loopback, in a real browser: a client is killed, then the server, then resumed.

Says how long after kill -9 the client's lane turns, and that the page goes on without being loaded again.

Run: python benchmarks/dashboard_live.py [FOLDER FOR SCREENSHOTS]
"""

import base64
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from realm import Realm, realm

from browser import Page, opened

CONFIG = """
[run]
rounds = 400
eval_every = 2
workers = 1
[data]
name = "digits"
partition = "iid"
clients = 3
[model]
name = "lenet300100"
[training]
learning_rate = 0.05
[pruning]
interval = 10
[initial]
samples = 60
interval = 2
max_passes = 4
[server]
deadline = 5
quorum = 0.5
"""
ROUND = "Number((document.getElementById('place').textContent.match(/Round (\\d+)/) || [])[1] || 0)"
LANE = "document.querySelector('.lane[data-client=\"1\"]')?.dataset.state"
STATE = "document.getElementById('state').textContent"


def picture(page: Page, folder: Path | None, name: str) -> None:
    """Keep what the page shows."""
    if folder is not None:
        shot = page.call("Page.captureScreenshot", captureBeyondViewport=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def drill(town: Realm, page: Page, shots: Path | None) -> None:
    """Kill and resume, and print what the page made of it."""
    page.run("window.sameDocument = true")
    page.wait(f"{ROUND} >= 3 && ['training', 'waiting'].includes({LANE})", 120)
    picture(page, shots, "all-there")
    town.kill("client-1")
    start = time.monotonic()
    page.wait(f"['silent', 'away'].includes({LANE})", 60)
    print(f"client 1, kill -9: its lane says {page.run(LANE)} after {time.monotonic() - start:.1f} s")
    picture(page, shots, "client-killed")
    town.start_client(1)
    page.wait(f"['training', 'waiting'].includes({LANE})", 120)
    print("client 1, started again: its lane says", page.run(LANE))
    town.kill("server")
    start = time.monotonic()
    page.wait(f"{STATE} === 'stopped'", 60)
    print(f"server, kill -9: the page says stopped after {time.monotonic() - start:.1f} s")
    picture(page, shots, "server-killed")
    mark = page.run(ROUND)
    town.start_server("--resume")
    page.wait(f"{ROUND} >= {mark} + 3 && {STATE} === 'training'", 240)
    assert page.run("window.sameDocument"), "the page was loaded again"
    print(f"server, resumed: the page went from round {mark} to {page.run(ROUND)} without being loaded again")
    picture(page, shots, "server-resumed")


def main(shots: Path | None = None) -> None:
    with tempfile.TemporaryDirectory() as made, realm(Path(made) / "r", CONFIG) as town:
        town.start_server()
        for client in range(3):
            town.start_client(client)
        town.wait("round 1", lambda: town.round() >= 1, 240)
        command = [sys.executable, "-m", "prunefl", "dashboard", str(town.run), "--port", "0"]
        served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert served.stdout is not None
        try:
            url = next(line for line in served.stdout if "http" in line).split()[-1]
            with opened(url, Path(made) / "profile") as page:
                page.resize(1400, 1600)
                drill(town, page, shots)
        finally:
            served.terminate()
            served.wait()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
