"""What a round costs when nobody trains: Flower as it comes, Flower quickened, and with the resident worker.

Three clients over loopback with TLS and node keys echo a state of about 1 MB (LeNet-300-100). Without the resident
worker every message pays for loading torch, the network and the data; with it they are loaded once. `resident` is as
`prunefl` does it, with messages signed at both ends; `unsigned` is the same without signatures, `plain` the same with a
process that loads all that for each message; `stock` are Flower's own commands.

Run: python benchmarks/flower_overhead.py [ROUNDS] [resident] [unsigned] [plain] [stock]
"""

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from prunefl.engines.flower import control, keys, sockets
from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.envelope import Envelope, seal
from prunefl.engines.flower.identity import read_identity
from prunefl.engines.flower.join import free_port
from prunefl.engines.flower.mailbox import Mailbox, Messages
from prunefl.engines.flower.processes import (
    NODE_FILE,
    QUIET,
    RUN_FILE,
    SECRET_FILE,
    SOCKET,
    STATUS_FILE,
    VIEWER,
)
from prunefl.engines.flower.signed_mailbox import sign_messages
from prunefl.engines.flower.signing import is_signed
from prunefl.engines.flower.supervise import ProcessGroup, run_group, tail
from prunefl.system.files import write_private

CLIENTS, STATE_BYTES = 3, 266_610 * 4
server_app, client_app = ServerApp(), ClientApp()


def load() -> int:
    """Load what a client needs before it can train; return the number of samples."""
    from prunefl import data, models

    federation = data.load("digits", clients=CLIENTS, partition="iid")
    models.build("lenet300100", classes=federation.classes, input_shape=federation.input_shape, seed=0)
    return len(federation.clients[0])


@client_app.train()
def loading_client(message: Message, context: Context) -> Message:
    """Load everything, then echo: Flower's own client."""
    load()
    return Message(to_records(from_records(message.content, 1 << 30)), reply_to=message)


@server_app.main()
def timed_rounds(grid: Grid, context: Context) -> None:
    """Send the state to all, wait for all, and write down how long each round took."""
    folder = Path(os.environ["BENCH_FOLDER"])
    nodes = {int(node): client for node, client in json.loads((folder / "nodes.json").read_text()).items()}
    envelope = seal(Envelope("state", {}, (os.urandom(STATE_BYTES),)))
    seconds = []
    with Mailbox(grid, 1 << 30) as unsigned:
        signed = os.environ["BENCH_KIND"] == "resident"
        mailbox: Messages = sign_messages(unsigned, "bench", folder / "keys", nodes) if signed else unsigned
        while len(mailbox.list_online()) < len(nodes):
            time.sleep(0.2)
        for number in range(int(os.environ["BENCH_ROUNDS"])):
            started = time.perf_counter()
            waiting = set(mailbox.send(dict.fromkeys(nodes, envelope), 300.0, str(number)).values())
            while waiting:
                for answer in mailbox.fetch():
                    assert answer.content == envelope, answer.error
                    waiting.discard(answer.message)
                time.sleep(0.1)
            seconds.append(time.perf_counter() - started)
    (folder / "seconds.json").write_text(json.dumps(seconds))


def echo(path: Path, client: int, resident: bool) -> None:
    """Be a worker that echoes, and has everything loaded or lets a process load it for each message."""
    if resident:
        load()
    home = Path(os.environ["BENCH_FOLDER"]) / "keys" / f"client-{client}"
    identity = read_identity(client, home, path.parent)
    with sockets.listen(path) as server:
        while True:
            line, _ = server.accept()
            with line:
                data = sockets.receive(line)
                if not resident:
                    subprocess.run([sys.executable, __file__, "load"], check=True)
                sockets.send(line, identity.answer(data, bytes) if is_signed(data) else data)


def start_ours(group: ProcessGroup, folder: Path, port: int, secret: Path, resident: bool) -> None:
    """Start our processes, with a worker for each client or without."""
    ca, common = folder / "keys" / "ca.pem", ["--superexec-auth-secret-file", str(secret)]
    executor = ["--", "executor", *common, "--runtime-api-address", f"127.0.0.1:{port}", *trust(ca)]
    processes = ["prunefl.engines.flower.processes", "link", *link(folder, port), *common, *executor]
    group.start("link", processes)
    base = dict(group.environment)
    for client in range(CLIENTS):
        home = folder / f"c{client}"
        home.mkdir(exist_ok=True)
        places = {NODE_FILE: str(home / "node"), SOCKET: str(home / "worker.sock")}
        group.environment = {**base, **places, "FLWR_HOME": str(home)}
        kept = "resident" if resident else "loading"
        group.start(f"worker{client}", ["flower_overhead", "echo", places[SOCKET], str(client), kept])
        keys = str(folder / "keys" / f"client-{client}")
        group.start(f"node{client}", ["prunefl.engines.flower.node", f"127.0.0.1:{port}", keys])


def start_stock(group: ProcessGroup, folder: Path, port: int) -> None:
    """Start Flower's own SuperNodes with its own settings; its SuperLink has to know their keys before."""
    base = dict(group.environment)
    for client in range(CLIENTS):
        group.environment = {**base, "FLWR_HOME": str(folder / f"c{client}")}
        arguments = node(folder, port, client, free_port())
        group.start(f"node{client}", ["flower_overhead", "supernode", *arguments])


def link(folder: Path, port: int, isolation: str = "process") -> list[str]:
    files = [f"--ssl-{kind}={folder / 'keys' / name}" for kind, name in FILES.items()]
    place = ["--host", "127.0.0.1", "--port", str(port), "--isolation", isolation]
    return [*files, *place, "--enable-supernode-auth", "--disable-runtime-dependency-installation"]


FILES = {"certfile": "server.pem", "keyfile": "server.key", "ca-certfile": "ca.pem"}


def trust(ca: Path) -> list[str]:
    return ["--root-certificates", str(ca)]


def node(folder: Path, port: int, client: int, local: int) -> list[str]:
    key = str(folder / "keys" / f"client-{client}" / "node.key")
    place = ["--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1", "--port", str(local)]
    return [
        *place,
        "--isolation",
        "subprocess",
        "--auth-supernode-private-key",
        key,
        *trust(folder / "keys" / "ca.pem"),
    ]


def measure(kind: str, rounds: int) -> list[float]:
    """Return the seconds of each round after the first."""
    with tempfile.TemporaryDirectory() as text:
        folder, port = Path(text), free_port()
        keys.make_keys(folder / "keys", [], CLIENTS, days=1)
        secret = write_private(folder / "secret", secrets.token_bytes(32))
        path = os.pathsep.join([str(Path(__file__).parent), str(Path(sys.executable).parent)])
        environment = {
            **QUIET,
            SECRET_FILE: str(secret),
            RUN_FILE: str(folder / "run.json"),
            VIEWER: "",
            STATUS_FILE: str(folder / "status.json"),
            "FLWR_HOME": str(folder / "flower"),
            "BENCH_KIND": kind,
            "BENCH_ROUNDS": str(rounds + 1),
            "BENCH_FOLDER": str(folder),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
            "PATH": os.pathsep.join([path, os.environ["PATH"]]),
            "OMP_NUM_THREADS": "1",
        }
        (folder / ".max-bytes").write_text(str(2 * STATE_BYTES))
        with run_group(folder / "logs", environment) as group:
            if kind == "stock":
                group.start("link", ["flower_overhead", "superlink", *link(folder, port, "subprocess")])
                nodes = partial(start_stock, group, folder, port)
            else:
                start_ours(group, folder, port, secret, kind in ("resident", "unsigned"))
                nodes = partial(int)
            return follow(folder, f"127.0.0.1:{port}", secret.read_bytes(), group, nodes)


def follow(
    folder: Path, address: str, secret: bytes, group: ProcessGroup, nodes: Callable[[], object]
) -> list[float]:
    """Start the run and perhaps nodes, wait for the end and return the rounds' seconds."""
    ca = folder / "keys" / "ca.pem"
    control.wait_until_healthy(address, ca, 150, group.find_ended)
    text = (control.APP / "pyproject.toml").read_text()
    text = text.replace("prunefl.runs.federation:app", "flower_overhead:server_app")
    control.APP = folder / "app"
    control.APP.mkdir()
    (control.APP / "pyproject.toml").write_text(
        text.replace("prunefl.engines.flower.client_app:app", "flower_overhead:client_app")
    )
    with control.connect(address, secret, ca) as client:
        registered = control.register_nodes(client, keys.read_register(folder / "keys"))
        (folder / "nodes.json").write_text(json.dumps(registered))
        run = control.start_run(client)
        nodes()
        while (status := control.run_status(client, run))[0] != "finished":
            if group.find_ended():
                raise RuntimeError(tail(folder / "logs" / f"{group.find_ended()[0]}.log", 10))
            time.sleep(0.5)
    if status[1] != "completed":
        raise RuntimeError(status[2])
    seconds: list[float] = json.loads((folder / "seconds.json").read_text())[1:]
    return seconds


def main() -> None:
    """Measure all three and print them, with how they compare."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    app = control.APP
    medians = {}
    for kind in sys.argv[2:] or ("resident", "plain", "stock"):
        control.APP = app
        seconds = measure(kind, rounds)
        medians[kind] = statistics.median(seconds)
        print(
            f"{kind:>8}: median {medians[kind]:.2f} s a round, {[round(s, 2) for s in seconds]}", flush=True
        )
    for kind in [kind for kind in medians if kind != "resident" and "resident" in medians]:
        print(f"the resident worker's round costs {medians['resident'] / medians[kind]:.0%} of {kind}")


def run(kind: str) -> None:
    """Be one of the processes that the measurement needs."""
    if kind == "echo":
        echo(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "resident")
    if kind == "load":
        load()
    sys.argv.pop(1)
    if kind == "superlink":
        from flwr.superlink.cli import flower_superlink

        flower_superlink()
    elif kind == "supernode":
        from flwr.supernode.cli import flower_supernode

        flower_supernode()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ("echo", "load", "superlink", "supernode"):
        run(sys.argv[1])
    else:
        main()
