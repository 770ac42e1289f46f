"""The resident worker: torch, the model and the data stay loaded here while messages come and go."""

import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from prunefl import config as settings
from prunefl import wire
from prunefl.config import Config
from prunefl.core.masks import prunable_names
from prunefl.data import Federation, Samples
from prunefl.engines.flower import sockets
from prunefl.engines.flower.client_store import ClientStore
from prunefl.engines.flower.codec import decode_order, encode_reply, read_text
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, seal, unseal
from prunefl.engines.flower.forks import die_with_parent
from prunefl.engines.flower.handshake import Facts, collect_facts, find_difference
from prunefl.local.torch_backend.memory import keep_freed_memory
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.client import handle
from prunefl.runs.api import build_model, load_data
from prunefl.runs.checkpoint import KEPT, write_atomically

ANYTHING = "*"
"""Allows all that the server says: for clients that are on the server's own machine."""


@dataclass(frozen=True)
class WorkerOptions:
    """Where this client works.

    Attributes:
        folder: its state, kept over restarts.
        client: its number in the federation.
        data_dir: its data; "" for data/NAME. A server has no say in it.
        allowed: functions that a server may name here as its model or data, as package.module:function.
    """

    folder: Path
    client: int
    data_dir: str = ""
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Session:
    """What is loaded for one run."""

    run: str
    config: Config
    data: Samples
    trainer: Trainer
    store: ClientStore
    facts: Facts


class Worker:
    """Answers envelopes. `ended` becomes True when the server says that the run is over."""

    def __init__(self, options: WorkerOptions, say: Callable[[str], None]) -> None:
        self.options, self._say = options, say
        self._session: Session | None = None
        self.ended = False
        self._reopen_session()

    def answer(self, data: bytes) -> bytes:
        """Return the answer to an envelope; whatever goes wrong is told to the server in one line."""
        try:
            envelope = unseal(data)
            handler = {"hello": self._hello, "order": self._order, "end": self._end}.get(envelope.kind)
            if handler is None:
                raise EnvelopeError(
                    f"an envelope of kind {envelope.kind!r}; are both sides of the same version?"
                )
            return seal(handler(envelope))
        except (ValueError, OSError, RuntimeError, MemoryError) as error:
            what = " ".join(f"{error}".split())[:500] or type(error).__name__
            self._say(f"error: {what}")
            return seal(Envelope("error", {"what": what}))

    def _hello(self, envelope: Envelope) -> Envelope:
        """Get ready for a run and say who we are."""
        run = read_text(envelope.values, "run")
        session = self._open_session(run, read_text(envelope.values, "config"))
        problem = find_difference(envelope.values.get("facts"), session.facts)
        if problem:
            self._session = None
            raise ValueError(problem)
        self._say(f"joined run {run} as client {self.options.client} with {len(session.data)} samples")
        return Envelope("joined", {"client": self.options.client, "num_samples": len(session.data)})

    def _order(self, envelope: Envelope) -> Envelope:
        """Train as ordered; ask for the whole state if the order speaks of what we do not have."""
        run, text_of_config = read_text(envelope.values, "run"), read_text(envelope.values, "config")
        if self._session is None or self._session.run != run:
            if not text_of_config:
                return Envelope("state_wanted")
            self._open_session(run, text_of_config)
        session = self._session
        assert session is not None
        order = decode_order(envelope)
        state = session.store.before(order.round)
        try:
            reply, after = handle(
                order, self.options.client, state, session.data, session.trainer, session.config
            )
        except wire.WireError as error:
            if error.reason != "digest":
                raise
            self._say(f"round {order.round}: {error}; asking for the whole state")
            return Envelope("state_wanted")
        session.store.save(order.round, after)
        self._say(
            f"round {order.round}: loss {reply.loss:.4f}, {reply.seconds:.2f} s, {len(reply.model)} bytes"
        )
        return encode_reply(reply)

    def _end(self, envelope: Envelope) -> Envelope:
        self.ended = True
        self._say("the run is over")
        return Envelope("end")

    def _open_session(self, run: str, config_text: str) -> Session:
        """Load data and model for a run, unless they are; the config is kept for a restart."""
        if self._session is not None and self._session.run == run:
            return self._session
        session = open_session(self.options, run, config_text)
        kept = self.options.folder / "run.toml"
        if not kept.exists() or _run_of(kept.read_text()) != run:
            session.store.clear()
        write_atomically(kept, f"# run {run}\n{config_text}".encode())
        self._session = session
        return session

    def _reopen_session(self) -> None:
        """After a restart, be ready before the first message."""
        kept = self.options.folder / "run.toml"
        if kept.exists():
            try:
                self._session = open_session(self.options, _run_of(kept.read_text()), kept.read_text())
            except (ValueError, OSError) as error:
                self._say(f"{kept}: {error}; waiting for the server's config")


def _run_of(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# run ").strip()


def open_session(options: WorkerOptions, run: str, config_text: str) -> Session:
    """Return everything loaded that a client needs for a run."""
    config = settings.from_tables(tomllib.loads(config_text))
    if ANYTHING not in options.allowed:
        config = restrict_config(config, options)
    federation, trainer = load_task(config)
    clients = len(federation.clients)
    if not 0 <= options.client < clients:
        raise ValueError(f"--partition {options.client}, must be < data.clients={clients}")
    store = ClientStore(options.folder / "rounds", keep=KEPT * config.run.checkpoint_every)
    facts = collect_facts(federation, trainer.template)
    return Session(run, config, federation.clients[options.client], trainer, store, facts)


def restrict_config(config: Config, options: WorkerOptions) -> Config:
    """Return the config with this machine's own folders; refuses code that this client did not allow."""
    for key, name in (("model.name", config.model.name), ("data.name", config.data.name)):
        if ":" in name and name not in options.allowed:
            raise ValueError(
                f"{key}={name!r}: the server wants code of this machine to be run; allow it with --allow {name}"
            )
    return replace(config, data=replace(config.data, dir=options.data_dir, cache=""))


@lru_cache(maxsize=1)
def load_task(config: Config) -> tuple[Federation, Trainer]:
    """Return data and model, loaded once for all clients that this process may be."""
    torch.set_num_threads(config.run.threads)
    keep_freed_memory()
    federation = load_data(config)
    model = build_model(config, federation)
    template = wire.Template.of(model, prunable_names(model, config.pruning.exclude))
    batch_shape = (config.training.batch_size, *federation.input_shape)
    return federation, Trainer(model, template, federation.classes, batch_shape)


def serve(worker: Worker, socket_path: Path) -> None:
    """Answer envelopes one at a time until the run is over."""
    with sockets.listen(socket_path) as server:
        while not worker.ended:
            line, _ = server.accept()
            with line:
                try:
                    sockets.send(line, worker.answer(sockets.receive(line)))
                except (OSError, ValueError) as error:
                    print(f"a message was lost on the way: {error}", flush=True)


def main() -> None:
    """Run as `python -m prunefl.engines.flower.worker FOLDER CLIENT SOCKET DATA [FUNCTION ...]`."""
    die_with_parent()
    folder, client, socket_path, data_dir, *allowed = sys.argv[1:]
    options = WorkerOptions(Path(folder), int(client), data_dir, tuple(allowed))
    worker = Worker(options, lambda words: print(words, flush=True))
    serve(worker, Path(socket_path))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
