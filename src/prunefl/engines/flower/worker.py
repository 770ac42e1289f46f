"""The resident worker: torch, the model and the data stay loaded here while messages come and go."""

import logging
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
from prunefl.engines.flower.agreement import Facts, differences, facts_of
from prunefl.engines.flower.client_store import ClientStore
from prunefl.engines.flower.forks import die_with_parent
from prunefl.engines.flower.letters import Letter, LetterError, seal, unseal
from prunefl.engines.flower.orders import reply_letter, text, to_order
from prunefl.local.torch_backend.trainer import Trainer
from prunefl.rounds.client import handle
from prunefl.runs.api import build_model, load_data
from prunefl.runs.checkpoint import KEPT
from prunefl.system.files import write_atomically
from prunefl.system.memory import keep_freed_memory

_log = logging.getLogger(__name__)

ANYTHING = "*"
"""Allows all that the server says: for clients that are on the server's own machine."""


@dataclass(frozen=True)
class Place:
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
class Bench:
    """What is loaded for one run."""

    run: str
    config: Config
    data: Samples
    trainer: Trainer
    store: ClientStore
    facts: Facts


class Worker:
    """Answers letters. `farewell` becomes True when the server says that the run is over."""

    def __init__(self, place: Place, say: Callable[[str], None]) -> None:
        self.place, self._say = place, say
        self._bench: Bench | None = None
        self.farewell = False
        self._set_up_again()

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a letter; whatever goes wrong is told to the server in one line."""
        try:
            letter = unseal(data)
            handler = {"hello": self._hello, "order": self._order, "farewell": self._farewell}.get(
                letter.kind
            )
            if handler is None:
                raise LetterError(f"a letter of kind {letter.kind!r}; are both sides of the same version?")
            return seal(handler(letter))
        except (ValueError, OSError, RuntimeError, MemoryError) as error:
            what = " ".join(f"{error}".split())[:500] or type(error).__name__
            self._say(f"trouble: {what}")
            return seal(Letter("trouble", {"what": what}))

    def _hello(self, letter: Letter) -> Letter:
        """Get ready for a run and say who we are."""
        run = text(letter.values, "run")
        bench = self._set_up(run, text(letter.values, "config"))
        problem = differences(letter.values.get("facts"), bench.facts)
        if problem:
            self._bench = None
            raise ValueError(problem)
        self._say(f"joined run {run} as client {self.place.client} with {len(bench.data)} samples")
        return Letter("here", {"client": self.place.client, "num_samples": len(bench.data)})

    def _order(self, letter: Letter) -> Letter:
        """Train as ordered; ask for the whole state if the order speaks of what we do not have."""
        run, text_of_config = text(letter.values, "run"), text(letter.values, "config")
        if self._bench is None or self._bench.run != run:
            if not text_of_config:
                return Letter("whole")
            self._set_up(run, text_of_config)
        bench = self._bench
        assert bench is not None
        order = to_order(letter)
        state = bench.store.before(order.round)
        try:
            reply, after = handle(order, self.place.client, state, bench.data, bench.trainer, bench.config)
        except wire.WireError as error:
            if error.reason != "digest":
                raise
            self._say(f"round {order.round}: {error}; asking for the whole state")
            return Letter("whole")
        bench.store.save(order.round, after)
        self._say(
            f"round {order.round}: loss {reply.loss:.4f}, {reply.seconds:.2f} s, {len(reply.model)} bytes"
        )
        return reply_letter(reply)

    def _farewell(self, letter: Letter) -> Letter:
        self.farewell = True
        self._say("the run is over")
        return Letter("farewell")

    def _set_up(self, run: str, config_text: str) -> Bench:
        """Load data and model for a run, unless they are; the config is kept for a restart."""
        if self._bench is not None and self._bench.run == run:
            return self._bench
        bench = make_bench(self.place, run, config_text)
        kept = self.place.folder / "run.toml"
        if not kept.exists() or _run_of(kept.read_text()) != run:
            bench.store.clear()
        write_atomically(kept, f"# run {run}\n{config_text}".encode())
        self._bench = bench
        return bench

    def _set_up_again(self) -> None:
        """After a restart, be ready before the first message."""
        kept = self.place.folder / "run.toml"
        if kept.exists():
            try:
                self._bench = make_bench(self.place, _run_of(kept.read_text()), kept.read_text())
            except (ValueError, OSError) as error:
                self._say(f"{kept}: {error}; waiting for the server's config")


def _run_of(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# run ").strip()


def make_bench(place: Place, run: str, config_text: str) -> Bench:
    """Return everything loaded that a client needs for a run."""
    config = settings.from_tables(tomllib.loads(config_text))
    if ANYTHING not in place.allowed:
        config = within_bounds(config, place)
    federation, trainer = loaded(config)
    clients = len(federation.clients)
    if not 0 <= place.client < clients:
        raise ValueError(f"--partition {place.client}, must be < data.clients={clients}")
    store = ClientStore(place.folder / "rounds", keep=KEPT * config.run.checkpoint_every)
    facts = facts_of(federation, trainer.template)
    return Bench(run, config, federation.clients[place.client], trainer, store, facts)


def within_bounds(config: Config, place: Place) -> Config:
    """Return the config with this machine's own folders; refuses code that this client did not allow."""
    for key, name in (("model.name", config.model.name), ("data.name", config.data.name)):
        if ":" in name and name not in place.allowed:
            raise ValueError(
                f"{key}={name!r}: the server wants code of this machine to be run; allow it with --allow {name}"
            )
    return replace(config, data=replace(config.data, dir=place.data_dir, cache=""))


@lru_cache(maxsize=1)
def loaded(config: Config) -> tuple[Federation, Trainer]:
    """Return data and model, loaded once for all clients that this process may be."""
    torch.set_num_threads(config.run.threads)
    federation = load_data(config)
    model = build_model(config, federation)
    template = wire.Template.of(model, prunable_names(model, config.pruning.exclude))
    batch_shape = (config.training.batch_size, *federation.input_shape)
    return federation, Trainer(model, template, federation.classes, batch_shape)


def serve(worker: Worker, socket_path: Path) -> None:
    """Answer letters one at a time until the run is over."""
    with sockets.listen(socket_path) as server:
        while not worker.farewell:
            line, _ = server.accept()
            with line:
                try:
                    sockets.send(line, worker.answer(sockets.receive(line)))
                except (OSError, ValueError) as error:
                    _log.warning("a message was lost on the way: %s", error)


def main() -> None:
    """Run as `python -m prunefl.engines.flower.worker FOLDER CLIENT SOCKET DATA [FUNCTION ...]`."""
    die_with_parent()
    keep_freed_memory()
    folder, client, socket_path, data_dir, *allowed = sys.argv[1:]
    place = Place(Path(folder), int(client), data_dir, tuple(allowed))
    worker = Worker(place, lambda words: print(words, flush=True))
    serve(worker, Path(socket_path))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
