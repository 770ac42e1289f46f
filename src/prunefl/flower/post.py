"""Letters over Flower's Grid: each answer is fetched on its own, so that one that hangs delays no other."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from prunefl.flower.carriage import from_records, to_records

THREADS = 16


@dataclass(frozen=True)
class Answer:
    """What came back for one letter: bytes, or why there are none."""

    message: str
    content: bytes = b""
    trouble: str = ""


class Post:
    """Sends letters to nodes and fetches the answers. Use as a context manager."""

    def __init__(self, grid: Grid, max_bytes: int) -> None:
        self._grid, self._max_bytes = grid, max_bytes
        self._pool = ThreadPoolExecutor(THREADS, "post")
        self._open: dict[str, Future[Answer | None] | None] = {}

    def online(self) -> dict[int, str]:
        """Return the nodes that are there, each with the time since when: a new time means a new process."""
        nodes: Iterable[Any] = getattr(self._grid, "get_nodes", list)()
        found = {node.node_id: str(node.last_activated_at) for node in nodes}
        # Under Flower's simulation nodes are never away and have no such time.
        return found or dict.fromkeys(self._grid.get_node_ids(), "")

    def send(self, letters: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        """Send each node its letter, to be answered within so many seconds; return the messages' names."""
        messages = [
            Message(to_records(letter), node, "train", ttl=seconds, group_id=group)
            for node, letter in letters.items()
        ]
        names = list(self._grid.push_messages(messages)) if messages else []
        sent = {node: name for node, name in zip(letters, names, strict=False) if name}
        self._open.update(dict.fromkeys(sent.values()))
        return sent

    def fetch(self) -> list[Answer]:
        """Return the answers that have come since the last call."""
        answers = []
        for name, job in list(self._open.items()):
            if job is None:
                self._open[name] = self._pool.submit(self._pull, name)
            elif job.done():
                answer = job.result()
                self._open[name] = None
                if answer is not None:
                    del self._open[name]
                    answers.append(answer)
        return answers

    def forget(self, name: str) -> None:
        """Do not look for this answer any more."""
        self._open.pop(name, None)

    def _pull(self, name: str) -> Answer | None:
        try:
            for message in self._grid.pull_messages([name]):
                if message.has_error():
                    return Answer(
                        name, trouble=_one_line(message.error.reason or f"error {message.error.code}")
                    )
                return Answer(name, from_records(message.content, self._max_bytes))
        except Exception as error:
            # Whatever a node sent, or Flower made of it, ends here: it is that node's loss alone.
            return Answer(name, trouble=_one_line(f"{type(error).__name__}: {error}"))
        return None

    def __enter__(self) -> "Post":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
