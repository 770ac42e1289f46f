"""The engine in one process: clients take turns on worker threads; the bits do not depend on how many."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import torch

from prunefl.config import Config
from prunefl.core.masks import digest
from prunefl.data import Samples
from prunefl.local.torch_backend.threads import workers
from prunefl.local.torch_backend.trainer import OnPass, Trainer
from prunefl.rounds.client import ClientState, handle
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState, Setup
from prunefl.runs import checkpoint


class Simulator:
    """Carries orders to simulated clients. Use as a context manager."""

    def __init__(
        self, setup: Setup, clients: Sequence[Samples], folder: Path, on_pass: OnPass | None = None
    ) -> None:
        self._setup, self._clients = setup, clients
        self._config: Config = setup.config
        self._store = ClientStore(folder)
        self._last_files: set[str] = set()
        count = workers(self._config.run.workers)
        # One OpenMP thread setting for all: it decides the bits, the number of workers must not.
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(self._config.run.threads)
        self._pool = ThreadPoolExecutor(count, "client")
        self._trainers: SimpleQueue[Trainer] = SimpleQueue()
        for _ in range(count):
            trainer = Trainer(setup.model, setup.template, setup.classes, setup.batch_shape)
            trainer.on_pass = on_pass or trainer.on_pass
            self._trainers.put(trainer)

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        """Yield every client's reply; each is let go of before the next is waited for."""
        jobs = deque(
            self._pool.submit(self._handle, client, order, state) for client, order in orders.items()
        )
        while jobs:
            yield jobs.popleft().result()

    def _handle(self, client: int, order: Order, state: ServerState) -> Reply:
        trainer = self._trainers.get()
        try:
            before = self._store.load(client, state)
            reply, after = handle(order, client, before, self._clients[client], trainer, self._config)
        finally:
            self._trainers.put(trainer)
        self._store.save(client, order.round, after)
        return reply

    def snapshot(self) -> dict[str, Any]:
        """Return the clients' states as a checkpoint remembers them; files that none speaks of go."""
        self._store.forget_files(self._last_files)
        self._last_files = self._store.files()
        return self._store.entries()

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to the clients' states of a checkpoint."""
        self._store.restore(snapshot)
        self._last_files = self._store.files()

    def __enter__(self) -> "Simulator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        torch.set_num_threads(self._threads_before)


class ClientStore:
    """The clients' states: names of masks in memory, tensors on disk, so a thousand clients cost little."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[int, dict[str, str | int]] = {}

    def load(self, client: int, server: ServerState) -> ClientState:
        """Return a client's state; masks that the server itself forgot are forgotten here too."""
        entry = self._entries.get(client)
        if entry is None:
            return ClientState()
        masks = server.past.get(bytes.fromhex(str(entry["masks"])), {})
        if not entry["file"]:
            return ClientState(masks, steps=int(entry["steps"]))
        tensors, _ = checkpoint.load_tensors(self._folder / str(entry["file"]))
        return ClientState(
            masks, checkpoint.under("sums/", tensors), int(entry["steps"]), checkpoint.residual_of(tensors)
        )

    def save(self, client: int, round: int, state: ClientState) -> None:
        """Keep a client's state. Files are never overwritten: an older checkpoint may speak of them."""
        tensors = {f"sums/{name}": value for name, value in state.sums.items()}
        tensors |= checkpoint.residual_tensors(state.residual)
        file = ""
        if tensors:
            path = self._folder / f"{client:06d}-{round:07d}"
            file = checkpoint.save_tensors(path, tensors, {}, durable=False).name
        named = digest(state.masks).hex() if state.masks else ""
        self._entries[client] = {"masks": named, "steps": state.steps, "file": file}

    def entries(self) -> dict[str, dict[str, str | int]]:
        """Return what a checkpoint has to remember."""
        return {str(client): entry for client, entry in sorted(self._entries.items())}

    def restore(self, entries: Mapping[str, Mapping[str, str | int]]) -> None:
        """Go back to what a checkpoint remembered."""
        self._entries = {int(client): dict(entry) for client, entry in entries.items()}

    def files(self) -> set[str]:
        """Return the names of the files that the present states lie in."""
        return {str(entry["file"]) for entry in self._entries.values() if entry["file"]}

    def forget_files(self, keep: set[str]) -> None:
        """Remove the files that neither the present states nor `keep` speak of."""
        named = keep | self.files()
        for path in self._folder.glob("*.safetensors"):
            if path.name not in named:
                path.unlink()
