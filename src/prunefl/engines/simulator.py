"""The engine in one process: clients take turns on worker threads; the bits do not depend on how many."""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

from prunefl.core.randomness import seeded_normal
from prunefl.data import Samples
from prunefl.data.samples import labels_of
from prunefl.local import Backend, OnPass, make_backend
from prunefl.rounds import client_files
from prunefl.rounds.client import Client, ClientState, follow
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState, Setup
from prunefl.system.cores import count_workers
from prunefl.system.errors import PruneFLError
from prunefl.system.files import load_arrays, save_arrays

# needs packages that only secure sums do
if TYPE_CHECKING:
    from prunefl.privacy.holdings import Member


class Simulator:
    """Carries orders to simulated clients. Use as a context manager."""

    def __init__(
        self, setup: Setup, clients: Sequence[Samples], folder: Path, on_pass: OnPass | None = None
    ) -> None:
        self._setup, self._clients, self._on_pass = setup, clients, on_pass
        self._left = False
        self._states = StateFiles(folder)
        self._last_files: set[str] = set()
        self._secure = _SecureClients(setup) if setup.config.privacy.secure else None
        self._follow = self._secure or _follow_openly
        count = count_workers(setup.config.run.workers)
        self._pool = ThreadPoolExecutor(count, "client")
        self._backends: SimpleQueue[Backend] = SimpleQueue()
        # One thread setting for all: it decides the bits, the number of workers must not.
        self._undo = ExitStack()
        for _ in range(count):
            backend = make_backend(setup.network, setup.config, setup.measured)
            self._undo.enter_context(backend.threads(setup.config.run.threads))
            self._backends.put(backend)

    @property
    def run(self) -> str:
        """A name: there is one run in this process."""
        return "simulation"

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
        """Yield every client's reply; each is let go of before the next is waited for."""
        jobs = deque(
            self._pool.submit(self._handle, client, order, state) for client, order in orders.items()
        )
        while jobs:
            yield jobs.popleft().result()

    def _handle(self, number: int, order: Order, state: ServerState) -> Reply:
        backend, setup = self._backends.get(), self._setup
        client = Client(number, self._clients[number], setup.network, backend, setup.method, setup.config)
        client = replace(client, on_pass=self._show_pass)
        try:
            before = self._states.load(number, state)
            reply, after = self._follow(order, client, before)
        finally:
            self._backends.put(backend)
        if after is not before:
            self._states.save(number, order.round, after)
        return reply

    def _show_pass(self, done: int, most: int, density: float) -> None:
        if self._left:
            raise CancelledError  # nobody waits for the other passes, which may take hours
        if self._on_pass is not None:
            self._on_pass(done, most, density)

    def take_keys(self, epoch: int) -> Mapping[int, tuple[int, bytes]]:
        """Return the keys of all clients, which join once, when they are first asked for."""
        return self._secure.join(epoch) if self._secure else {}

    def snapshot(self) -> dict[str, Any]:
        """Return the clients' states as a checkpoint remembers them; files that none speaks of go."""
        self._states.forget_files(self._last_files)
        self._last_files = self._states.files()
        return {**self._states.entries(), "data": self._data}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to the clients' states of a checkpoint; clients with other samples than then are refused."""
        # checkpoints of earlier days did not note what the data was
        self._refuse_other_data(snapshot.get("data", self._data))
        self._states.restore({client: entry for client, entry in snapshot.items() if client != "data"})
        self._last_files = self._states.files()

    def _refuse_other_data(self, before: Sequence[str]) -> None:
        remedy = "put it back, or give another --out"
        if len(before) != len(self._data):
            counts = f"{len(before)} clients then, {len(self._data)} now"
            raise PruneFLError(f"the data has changed since the run began ({counts}): {remedy}")
        for client, (then, now) in enumerate(zip(before, self._data, strict=True)):
            if then != now:
                counts = f"{then.partition(':')[0]} samples then, {now.partition(':')[0]} now"
                raise PruneFLError(
                    f"the data of client {client} has changed since the run began ({counts}): {remedy}"
                )

    @cached_property
    def _data(self) -> list[str]:
        return [name_samples(samples) for samples in self._clients]

    def __enter__(self) -> "Simulator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        self._pool.shutdown(cancel_futures=True)
        self._undo.close()


def _follow_openly(order: Order, client: Client, state: ClientState) -> tuple[Reply, ClientState]:
    return follow(order, client, state)


class _SecureClients:
    """Simulated clients of secure sums: each with keys of its own, which no other one's half is given."""

    def __init__(self, setup: Setup) -> None:
        from prunefl.privacy.signers import SimulatedKeys
        from prunefl.rounds.secure_client import Vault

        self._seed, self._privacy, self._keys = setup.config.run.seed, setup.config.privacy, SimulatedKeys()
        self._vaults = {client: Vault() for client in setup.members}
        self._joined = False

    def join(self, epoch: int) -> dict[int, tuple[int, bytes]]:
        """Return everybody's signed key for an epoch, once."""
        from prunefl.rounds.secure_client import introduce_ahead

        found = {}
        for client in self._vaults if not self._joined else ():
            self._vaults[client], key = introduce_ahead(self._vaults[client], self._member(client), epoch)
            found[client] = (epoch, key)
        self._joined = True
        return found

    def _member(self, client: int) -> "Member":
        from prunefl.privacy.holdings import Member
        from prunefl.privacy.signers import SimulatedSigner

        settings, signer = self._privacy, SimulatedSigner(client, self._keys)
        return Member(client, "simulation", settings.threshold, settings.neighbours, signer)

    def __call__(self, order: Order, client: Client, state: ClientState) -> tuple[Reply, ClientState]:
        from prunefl.rounds.secure_client import follow_securely

        member, vault = self._member(client.number), self._vaults[client.number]
        noise = partial(seeded_normal, self._seed, "privacy noise", client.number)
        reply, after, self._vaults[client.number] = follow_securely(
            order, client, state, vault, member, draw_noise=noise
        )
        return reply, after


def name_samples(samples: Samples) -> str:
    """Return how many there are and a digest of their labels, where those are known without reading the samples."""
    labels = labels_of(samples)
    known = b"" if labels is None else labels.tobytes()
    return f"{len(samples)}:{hashlib.blake2b(known, digest_size=4).hexdigest()}"


class StateFiles:
    """The clients' states: names of masks in memory, arrays on disk, so a thousand clients cost little."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[int, dict[str, Any]] = {}

    def load(self, client: int, server: ServerState) -> ClientState:
        """Return a client's state; masks that the server itself forgot are forgotten here too."""
        entry = self._entries.get(client)
        if entry is None:
            return ClientState()
        masks = server.past.get(bytes.fromhex(entry["masks"]))
        # by its name alone: a checkpoint has no say in which folders are read
        arrays = load_arrays(self._folder / Path(entry["file"]).name)[0] if entry["file"] else {}
        memory = client_files.memory_of(arrays, entry["memory"])
        return ClientState(masks, memory, client_files.residual_of(arrays), client_files.moments_of(arrays))

    def save(self, client: int, round: int, state: ClientState) -> None:
        """Keep a client's state. Files are never overwritten: an older checkpoint may speak of them."""
        arrays, file = client_files.state_arrays(state), ""
        if arrays:
            path = self._folder / f"{client:06d}-{round:07d}"
            file = save_arrays(path, arrays, {}, durable=False).name
        digest = state.masks.digest.hex() if state.masks is not None else ""
        self._entries[client] = {"masks": digest, "memory": dict(state.memory.numbers), "file": file}

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what a checkpoint has to remember."""
        return {str(client): entry for client, entry in sorted(self._entries.items())}

    def restore(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Go back to what a checkpoint remembered."""
        self._entries = {int(client): dict(entry) for client, entry in entries.items()}

    def files(self) -> set[str]:
        """Return the names of the files that the present states lie in."""
        return {entry["file"] for entry in self._entries.values() if entry["file"]}

    def forget_files(self, keep: set[str]) -> None:
        """Remove the files that neither the present states nor `keep` speak of."""
        named = keep | self.files()
        for path in self._folder.glob("*.safetensors"):
            if path.name not in named:
                path.unlink()
