"""A federated run on real machines: a run as everywhere else, with Flower as its engine."""

import math
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from prunefl import config as settings
from prunefl import data, models
from prunefl.config import Config
from prunefl.core.objectives import check_class_weights, loss_of
from prunefl.data import Federation, Samples
from prunefl.data.public import load_public
from prunefl.devices import spoken_estimates
from prunefl.engines.flower.bell import FILE as BELL
from prunefl.engines.flower.bell import Bell
from prunefl.engines.flower.codec import RUN_NAME
from prunefl.engines.flower.engine import FlowerEngine, Terms
from prunefl.engines.flower.envelope import Envelope
from prunefl.engines.flower.handshake import collect_facts, with_task, without_servers_own
from prunefl.engines.flower.mailbox import Mailbox, Messages
from prunefl.engines.flower.membership import Membership
from prunefl.engines.flower.processes import RUN_FILE, max_bytes_file
from prunefl.engines.flower.server_app import Grid, RunOptions, make_server_app
from prunefl.engines.flower.signed_mailbox import sign_messages
from prunefl.engines.flower.status import Status
from prunefl.engines.flower.supervise import Backoff
from prunefl.local import choose_backend
from prunefl.local.native import encode_plan
from prunefl.local.torch_backend.network import network_of
from prunefl.local.torch_backend.threads import set_threads
from prunefl.methods import build_method
from prunefl.rounds.server import Setup, whole_order
from prunefl.rounds.setup import prepare, with_sizes
from prunefl.rounds.updates import NO_REPLY, RoundFailed
from prunefl.runs.callbacks import spoken_loss
from prunefl.runs.records import Record
from prunefl.runs.recovery import Recovery
from prunefl.runs.resume import as_begun
from prunefl.runs.runner import execute
from prunefl.runs.soundness import UnsoundError
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically

NAME_FILE = "run-name.txt"
PLENTY = 1 << 40
"""Samples of a client that has not come yet."""


def run(grid: Grid, config: Config, options: RunOptions) -> None:
    """Run all rounds with real clients and leave in the folder what every run leaves."""
    folder, resume = options.folder, options.resume
    if loss_of(config).metric != "accuracy":
        raise PruneFLError(
            f"training.loss={config.training.loss!r}: real clients train classifiers so far; `prunefl run` simulates it"
        )
    if config.run.device != "cpu":
        raise PruneFLError(
            f"run.device={config.run.device!r}: real clients compute on their CPUs, must be 'cpu'"
        )
    if config.privacy.secure and options.keys is None:
        raise PruneFLError(
            "privacy.secure=true needs a key of each client: give --keys in place of --insecure"
        )
    # what is asked of clients need not be what this machine has
    set_threads(min(config.run.threads, os.cpu_count() or 1))
    federation = data.load_for_server(config)
    say(f"data: {federation.spoken}")
    check_class_weights(loss_of(config), federation.classes)
    public = load_public(config, federation)
    model = models.build_configured(config, federation.classes, federation.input_shape)
    made = network_of(model, federation.input_shape, federation.classes, config.pruning.exclude)
    begun = as_begun(config, folder) if resume else config
    choice = choose_backend(made, begun, build_method(begun).prunes)
    network, config = choice.network, choice.config
    say(f"clients train by the {choice.spoken}")
    sizes = [len(share) for share in federation.clients]
    # clients that bring their own data have not said yet how much: enough, until they do
    setup = prepare(network, [size or PLENTY for size in sizes], config, federation.cut)
    setup = replace(setup, secret=True)
    if guessed := spoken_estimates(setup.devices):
        say(guessed)
    # as prepared: a limit of memory has become one of density, which initial pruning keeps
    told = with_task(setup.config, federation)
    # nodes without keys are this machine's own, or simulated: they find the data where the server does
    text = settings.dump(without_servers_own(told) if options.nodes else told)
    name = name_run(folder, resume)
    facts = collect_facts(network.template)
    plan = encode_plan(network.plan) if network.plan is not None else ""
    hello = Envelope("hello", {"run": name, "config": text, "plan": plan, "facts": facts})
    tested, server = federation.test is not None, config.server
    status = Status(folder, config.run.rounds, has_test=tested, classes=federation.names)
    status.weight_cap = config.training.weight_cap if config.training.weighting == "samples" else 0.0
    limits = (server.quorum, server.deadline, config.initial.deadline)
    terms = Terms(*limits, name, text, plan, server.min_clients, config.initial.max_passes)
    announce_max_bytes(limit_reply_bytes(setup))
    with Mailbox(grid, limit_reply_bytes(setup)) as unsigned, Bell(folder / BELL, unsigned.ring):
        mailbox: Messages = unsigned
        if options.keys is not None:
            mailbox = sign_messages(unsigned, name, options.keys, options.nodes)
        patience, count = max(120.0, server.deadline), len(federation.clients)
        epoch = time.time_ns() // 1000 if config.privacy.secure else 0
        membership = Membership(mailbox, count, options.nodes, hello, patience, say, server.clients, epoch)
        status.members, status.turned_away = membership.members, membership.turned_away
        engine = FlowerEngine(mailbox, membership, terms, partial(whole_order, setup), say, status.write)
        status.phase = "waiting for clients"
        engine.wait_for_clients()
        status.phase = "training"
        setup = use_reported_sizes(setup, membership, sizes)
        _execute(setup, engine, federation, folder, resume, status, public)
        status.phase = "finished"
        status.write(now=True)
        engine.end_run()


app = make_server_app(run)


def _execute(
    setup: Setup,
    engine: FlowerEngine,
    federation: Federation,
    folder: Path,
    resume: bool,
    status: Status,
    public: Samples | None,
) -> None:
    """Execute the run; a round in which too many updates were bad is done again from the last checkpoint."""

    recovery = Recovery(folder, say)
    setup = replace(setup, left_out=frozenset(recovery.left_out))
    engine.leave_out(recovery.left_out)

    def on_record(record: Record) -> None:
        recovery.note(record)
        status.record = record
        status.accuracy = record.get("accuracy", status.accuracy)
        refused = [
            *record.get("refused", {}).items(),
            *record.get("evaluation", {}).get("refused", {}).items(),
        ]
        for client, why in refused:
            if why != NO_REPLY:
                engine.refuse(int(client), why)
        for client, words in record.get("bounded", {}).items():
            engine.note_bounded(int(client), words)
        engine.leave_out({int(client): words for client, words in record.get("left_out", {}).items()})
        if found := record.get("evaluation"):
            status.evaluation = found
            for client, (right, samples) in found["by_client"].items():
                status.members[int(client)].accuracy = right / samples
            for client, (right, samples) in found.get("personal", {}).items():
                status.members[int(client)].personal = right / samples
        status.write(now=True)
        say(_describe(record))

    backoff = Backoff()
    while True:
        try:
            test, name = federation.test, federation.name
            execute(setup, engine, test, name, folder, resume, on_record, public=public)
            return
        except (RoundFailed, UnsoundError) as error:
            for client, why in getattr(error, "refused", {}).items():
                engine.refuse(client, why)
            setup = recovery.recover(setup, error)
            engine.leave_out(recovery.left_out)
            wait = backoff.next()
            say(f"{error}; again from the last checkpoint in {wait:.0f} s")
            time.sleep(wait)
            resume = True


def name_run(folder: Path, resume: bool) -> str:
    """Return what clients know the run by: made up when it begins, kept in its folder while it is resumed."""
    kept = folder / NAME_FILE
    if resume and kept.exists():
        named = kept.read_text(errors="replace").strip()
        if not RUN_NAME.fullmatch(named):
            raise PruneFLError(f"{kept}: {named[:80]!r}, must be letters, digits and dashes")
        return named
    name = secrets.token_hex(8)
    write_atomically(kept, name.encode())
    return name


def use_reported_sizes(setup: Setup, membership: Membership, known: Sequence[int]) -> Setup:
    """Return the setup with D_n as the clients report it; what is known here where one has not come yet."""
    said = {number: member.num_samples for number, member in membership.members.items()}
    sizes = [said.get(number) or size for number, size in enumerate(known)]
    return with_sizes(setup, sizes)


def limit_reply_bytes(setup: Setup) -> int:
    """Return more than any honest reply needs: weights and a statistic at full precision, and the pattern."""
    elements = sum(math.prod(shape) for shape in setup.network.template.shapes)
    return 16 * elements + (1 << 20)


def announce_max_bytes(most: int) -> None:
    """Let the SuperLink, where it is ours, take answers of this size; they are wrapped in records."""
    if RUN_FILE in os.environ:
        write_atomically(max_bytes_file(), str(most + (1 << 20)).encode())


def say(words: str) -> None:
    """Tell the user: `prunefl server` shows the lines of this process that begin like this."""
    print(f"prunefl: {words}", flush=True)


def _describe(record: Record) -> str:
    if record["kind"] != "round":
        return f"initial pruning: density {record['density']:.4f}"
    tested = f", accuracy {record['accuracy']:.4f}" if "accuracy" in record else ""
    if found := record.get("evaluation"):
        worst = f" (worst tenth {found['worst_tenth']:.4f})" if "worst_tenth" in found else ""
        tested += f", at {found['clients']} clients {found['accuracy']:.4f}{worst}"
    return (
        f"round {record['round']}: {spoken_loss(record)}, density {record['density']:.4f}{tested}, "
        f"{record['wall_seconds']:.2f} s"
    )
