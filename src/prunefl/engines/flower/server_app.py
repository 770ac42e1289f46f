"""The ServerApp: a run as everywhere else, with the engine as its engine."""

import json
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from prunefl import config as settings
from prunefl.config import Config
from prunefl.data import Federation
from prunefl.engines.flower.engine import FlowerEngine, Terms
from prunefl.engines.flower.envelope import Envelope, seal
from prunefl.engines.flower.forks import die_with_parent
from prunefl.engines.flower.handshake import collect_facts
from prunefl.engines.flower.mailbox import Mailbox
from prunefl.engines.flower.membership import Membership
from prunefl.engines.flower.status import Status
from prunefl.engines.flower.supervise import Backoff
from prunefl.rounds.server import Setup, whole_order
from prunefl.rounds.updates import RoundFailed
from prunefl.runs.api import build_model, load_data, prepare
from prunefl.runs.checkpoint import write_atomically
from prunefl.runs.records import Record
from prunefl.runs.runner import execute

NAME_FILE = "run-name.txt"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the config that the run's options name; see `prunefl server`."""
    die_with_parent()
    options = context.run_config
    config = settings.load(Path(str(options["config"])))
    nodes = json.loads(str(options["nodes"]) or "{}")
    keys = {int(node): int(client) for node, client in nodes.items()}
    run(grid, config, Path(str(options["folder"])), keys, bool(options["resume"]))


@dataclass(frozen=True)
class Remote:
    """A client's share as the server knows it: by its size. The samples are where they belong."""

    num_samples: int

    def __len__(self) -> int:
        return self.num_samples

    def batch(
        self, indices: torch.Tensor, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Refuse: no sample leaves its client."""
        raise RuntimeError("a client's samples are not at the server")


def run(grid: Grid, config: Config, folder: Path, keys: Mapping[int, int], resume: bool) -> None:
    """Run all rounds with real clients and leave in the folder what every run leaves."""
    torch.set_num_threads(config.run.threads)
    federation = load_data(config)
    say(f"data: {federation.cut}")
    model = build_model(config, federation)
    setup = prepare(model, federation, config)
    # as prepared: a limit of memory has become one of density, which initial pruning keeps
    text = settings.dump(setup.config)
    name = run_name(folder, resume)
    hello = Envelope(
        "hello", {"run": name, "config": text, "facts": collect_facts(federation, setup.template)}
    )
    status = Status(folder, config.run.rounds)
    terms = Terms(config.server.quorum, config.server.deadline, name, text)
    with Mailbox(grid, max_reply_bytes(setup)) as mailbox:
        clients = len(federation.clients)
        membership = Membership(mailbox, clients, keys, seal(hello), max(120.0, config.server.deadline), say)
        status.members = membership.members
        engine = FlowerEngine(mailbox, membership, terms, partial(whole_order, setup), say, status.write)
        status.phase = "waiting for clients"
        engine.wait_for_clients()
        status.phase = "training"
        setup = with_real_sizes(setup, membership, federation)
        _execute(setup, engine, federation, folder, resume, status)
        status.phase = "finished"
        status.write(now=True)
        engine.end_run()


def _execute(
    setup: Setup, engine: FlowerEngine, federation: Federation, folder: Path, resume: bool, status: Status
) -> None:
    """Execute the run; a round in which too many updates were bad is done again from the last checkpoint."""

    def on_record(record: Record) -> None:
        status.record = record
        for client, why in record.get("refused", {}).items():
            if why != "no reply":
                engine.refuse(int(client), why)
        status.write(now=True)
        say(_words(record))

    backoff = Backoff()
    while True:
        try:
            execute(setup, engine, federation.test, federation.name, folder, resume, on_record)
            return
        except RoundFailed as error:
            for client, why in error.refused.items():
                engine.refuse(client, why)
            wait = backoff.next()
            say(f"{error}; again from the last checkpoint in {wait:.0f} s")
            time.sleep(wait)
            resume = True


def run_name(folder: Path, resume: bool) -> str:
    """Return what clients know the run by: made up when it begins, kept in its folder while it is resumed."""
    kept = folder / NAME_FILE
    if resume and kept.exists():
        return kept.read_text().strip()
    name = secrets.token_hex(8)
    write_atomically(kept, name.encode())
    return name


def with_real_sizes(setup: Setup, membership: Membership, federation: Federation) -> Setup:
    """Return the setup with D_n as the clients report it; the config's own where one has not come yet."""
    sizes = [
        membership.members[client].num_samples or len(share)
        for client, share in enumerate(federation.clients)
    ]
    return replace(setup, num_samples=sizes)


def max_reply_bytes(setup: Setup) -> int:
    """Return more than any honest reply needs: weights and a statistic at full precision, and the pattern."""
    elements = sum(math.prod(shape) for shape in setup.template.shapes)
    return 16 * elements + (1 << 20)


def say(words: str) -> None:
    """Tell the user; `prunefl server` shows what this process prints."""
    print(f"prunefl: {words}", flush=True)


def _words(record: Record) -> str:
    if record["kind"] != "round":
        return f"initial pruning: density {record['density']:.4f}"
    tested = f", accuracy {record['accuracy']:.4f}" if "accuracy" in record else ""
    return (
        f"round {record['round']}: loss {record['loss']:.4f}, density {record['density']:.4f}{tested}, "
        f"{record['wall_seconds']:.2f} s"
    )
