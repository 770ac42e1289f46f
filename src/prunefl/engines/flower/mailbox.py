"""Messages over Flower's Grid. An answer that hangs on its way must not keep back the others."""

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from prunefl.engines.flower.chunks import from_records, to_records
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, one_line, unseal

log = logging.getLogger(__name__)

THREADS = 32
GROUPS = 8
"""Requests in which answers are looked for at a time: each costs the SuperLink milliseconds.

A request takes all answers that are there and brings them one after another: one whose sender died on the way keeps
back those behind it. So the fewer share a request, the better.
"""

UNRUNG_SECONDS = 1.0
"""After which answers are looked for all the same where a bell should have rung."""

STALL = 10.0
"""Seconds after which a fetch counts as hanging and what else it looked for is looked for anew."""


@dataclass(frozen=True)
class Answer:
    """What came back for one message: bytes, or why there are none."""

    message: str
    content: bytes = b""
    error: str = ""

    def open(self) -> Envelope:
        """Return the envelope that came; EnvelopeError if none did, or one that reports an error."""
        if self.error:
            raise EnvelopeError(self.error)
        envelope = unseal(self.content)
        if envelope.kind == "error":
            raise EnvelopeError(one_line(str(envelope.values.get("what"))))
        return envelope

    @property
    def is_error(self) -> bool:
        """Whether it is a client's own word that something is wrong with it."""
        return self._find_error() is not None

    @property
    def claimed_client(self) -> int | None:
        """Which client it says to be that reports an error; nobody has checked that."""
        error = self._find_error()
        claimed = None if error is None else error.values.get("client")
        return claimed if type(claimed) is int else None

    @property
    def leaves(self) -> bool:
        """Whether a client says that it cannot take part in the run any more."""
        error = self._find_error()
        return error is not None and error.values.get("leaves") is True

    def _find_error(self) -> Envelope | None:
        try:
            envelope = unseal(self.content)
        except EnvelopeError:
            return None
        return envelope if envelope.kind == "error" else None


class Messages(Protocol):
    """A way to send nodes bytes and to get their answers."""

    def list_online(self) -> dict[int, str]:
        """Return the nodes that are there, each with the time since when: a new time means a new process."""

    def send(self, sealed: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        """Send each node its bytes, to be answered within so many seconds; return the messages' names."""

    def fetch(self) -> list[Answer]:
        """Return the answers that have come since the last call."""

    def wait(self, seconds: float) -> None:
        """Return when an answer may have come, after so many seconds at most."""

    def forget(self, name: str) -> None:
        """Do not look for this answer any more."""


class Mailbox:
    """Sends sealed envelopes to nodes and fetches the answers. Use as a context manager."""

    def __init__(self, grid: Grid, max_bytes: int) -> None:
        self._grid, self._max_bytes = grid, max_bytes
        self._pool = ThreadPoolExecutor(THREADS, "mailbox")
        self._open: set[str] = set()
        self._news = threading.Event()
        self._rings, self._seen, self._looked = 0, -1, -math.inf
        self._jobs: dict[Future[list[Answer]], tuple[Sequence[str], float]] = {}

    def list_online(self) -> dict[int, str]:
        """Return the nodes that are there, each with the time since when: a new time means a new process."""
        nodes: Iterable[Any] = getattr(self._grid, "get_nodes", list)()
        found = {node.node_id: str(node.last_activated_at) for node in nodes}
        # Under Flower's simulation nodes are never away and have no such time.
        return found or dict.fromkeys(self._grid.get_node_ids(), "")

    def send(self, sealed: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        """Send each node its bytes, to be answered within so many seconds; return the messages' names."""
        messages = [
            Message(to_records(data), node, "train", ttl=seconds, group_id=group)
            for node, data in sealed.items()
        ]
        names = list(self._grid.push_messages(messages)) if messages else []
        sent = {node: name for node, name in zip(sealed, names, strict=False) if name}
        self._open.update(sent.values())
        return sent

    def fetch(self) -> list[Answer]:
        """Return the answers that have come since the last call."""
        answers: list[Answer] = []
        for job in [job for job in self._jobs if job.done()]:
            del self._jobs[job]
            hanging = {name for names, _ in self._jobs.values() for name in names}
            # Who asks for an answer that another fetch is just bringing hears that there is none.
            good = [answer for answer in job.result() if not answer.error or answer.message not in hanging]
            answers += [answer for answer in good if answer.message in self._open]
            self._open -= {answer.message for answer in good}
        self._look_where_due(time.monotonic())
        return answers

    def _look_where_due(self, now: float) -> None:
        """Look for answers; where a bell rings for them, only then and now and then."""
        if not self._rings or self._seen != self._rings or now - self._looked >= UNRUNG_SECONDS:
            self._seen, self._looked = self._rings, now
            self._look_for_more(now)

    def _look_for_more(self, now: float) -> None:
        young = [names for names, started in self._jobs.values() if now - started < STALL]
        asked = {name for names in young for name in names}
        names = sorted(self._open - asked)
        size = -(-len(names) // GROUPS)
        for start in range(0, len(names), max(1, size)):
            if len(self._jobs) < THREADS:
                group = names[start : start + size]
                job = self._pool.submit(self._pull, group)
                job.add_done_callback(partial(self._note_done, self._rings))
                self._jobs[job] = (group, now)

    def _note_done(self, rings: int, job: Future[list[Answer]]) -> None:
        """Say that a fetch has brought something, or was too early: else it is no reason to look again."""
        if rings != self._rings:
            self._seen = -1
        if rings != self._rings or job.cancelled() or job.exception() or job.result():
            self._news.set()

    def ring(self) -> None:
        """Say that an answer has come, wherever it is: it is to be looked for now."""
        self._rings += 1
        self._news.set()

    def wait(self, seconds: float) -> None:
        """Return when an answer may have come, after so many seconds at most."""
        self._news.wait(seconds)
        self._news.clear()

    def forget(self, name: str) -> None:
        """Do not look for this answer any more."""
        self._open.discard(name)

    def _pull(self, names: Sequence[str]) -> list[Answer]:
        try:
            messages = list(self._grid.pull_messages(names))
        except httpx.TransportError as error:
            # between us and our own SuperLink: no node's doing, and the answers are still there
            log.warning("answers cannot be fetched now: %s", error)
            return []
        except Exception as error:
            # What Flower raises over the bytes of one node must not cost the others their answers.
            if len(names) > 1:
                return [answer for name in names for answer in self._pull([name])]
            log.exception("Flower cannot read the answer to message %s", names[0])
            words = one_line(f"Flower cannot read its answer: {type(error).__name__}: {error}")
            return [Answer(names[0], error=words)]
        return [self._read(message) for message in messages]

    def _read(self, message: Message) -> Answer:
        name = message.metadata.reply_to_message_id
        if message.has_error():
            return Answer(name, error=one_line(message.error.reason or f"error {message.error.code}"))
        try:
            return Answer(name, from_records(message.content, self._max_bytes))
        except ValueError as error:
            return Answer(name, error=one_line(str(error)))

    def __enter__(self) -> "Mailbox":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
