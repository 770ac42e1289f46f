"""The clients of a run, each with what was last heard of it: from the status file, or from records alone."""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

SILENT_SECONDS = 4.0
"""A waiting node is heard of every two seconds; one that is silent for longer has been cut off or killed."""

KEPT_ROUNDS = 60
"""Rounds of which each lane shows what became of the client in it."""

WORDS = 300
"""Letters of a refusal that are shown."""


@dataclass
class Lanes:
    """All clients of a run, as its records tell of them.

    Attributes:
        count: how many there are.
        rounds, refusals: by client, in how many rounds it took part, and how many of its updates were left out.
        refusal: by client, why the last was.
        accuracy: by client, on the samples that it holds out, at the last evaluation.
    """

    count: int = 0
    rounds: Counter[Any] = field(default_factory=Counter)
    refusals: Counter[Any] = field(default_factory=Counter)
    refusal: dict[int, str] = field(default_factory=dict)
    accuracy: dict[int, float] = field(default_factory=dict)
    _last: deque[tuple[int, Sequence[Any], Collection[int]]] = field(
        default_factory=lambda: deque(maxlen=KEPT_ROUNDS)
    )

    def add(self, record: Mapping[str, Any]) -> None:
        """Enter what a round's record says of its clients; thousands of them in many rounds, so no loop over them."""
        asked = record.get("clients")
        asked = asked if isinstance(asked, list) else []
        refused = {
            int(n): str(why)[:WORDS] for n, why in (record.get("refused") or {}).items() if n.isdigit()
        }
        self.rounds.update(asked)
        self.rounds.subtract(refused.keys())
        self.refusals.update(refused.keys())
        self.refusal |= refused
        self._last.append((record["round"], asked, refused.keys()))
        scores = (record.get("evaluation") or {}).get("by_client") or {}
        self.accuracy |= {int(n): right / of for n, (right, of) in scores.items() if n.isdigit()}

    def history(self, after: int = 0) -> list[tuple[int, str]]:
        """Return the last rounds after one: number, and a letter a client: t took part, r refused, . not asked."""
        return [
            (number, self._letters(asked, refused)) for number, asked, refused in self._last if number > after
        ]

    def _letters(self, asked: Sequence[Any], refused: Collection[int]) -> str:
        letters = ["."] * self.count
        for letter, clients in (("t", asked), ("r", refused)):
            for client in clients:
                if isinstance(client, int) and 0 <= client < self.count:
                    letters[client] = letter
        return "".join(letters)

    def rows(self, status: Mapping[str, Any] | None, is_live: bool) -> list[list[Any]]:
        """Return a row for every client.

        It has number, state, refusal, last heard, bytes up, bytes down, samples, accuracy, rounds, refusals; None
        where that is not known.

        Args:
            status: the content of the status file, of a federation.
            is_live: whether the run goes on: what a client is doing is not said of one that has ended.
        """
        nodes = {node["client"]: node for node in (status or {}).get("nodes", ())}
        updated = float((status or {}).get("updated", 0.0))
        refused_last = set(self._last[-1][2]) if self._last else set()
        rows = []
        for client in range(self.count):
            node, why = nodes.get(client), self.refusal.get(client, "")
            counts = [self.rounds[client], self.refusals[client]]
            accuracy = self.accuracy.get(client)
            if node is None:
                state = "–" if not is_live else "late" if client in refused_last else "in use"
                rows.append([client, state, why, None, None, None, None, accuracy, *counts])
                continue
            rows.append(
                [
                    client,
                    state_of(node, updated) if is_live else "–",
                    str(node.get("refusal") or why)[:WORDS],
                    node.get("last_seen") or None,
                    node.get("bytes_up"),
                    node.get("bytes_down"),
                    node.get("samples") or None,
                    node["accuracy"] if node.get("accuracy") is not None else accuracy,
                    counts[0],
                    max(counts[1], int(node.get("left_out") or 0)),
                ]
            )
        return rows


def state_of(node: Mapping[str, Any], updated: float) -> str:
    """Return in a word what a node of a federation is doing, as of the time of its status."""
    if node.get("barred"):
        return "left out" if node.get("online") else "refused"
    if not node.get("online"):
        return "away"
    # a slow machine asks less often than it should: it is silent when it is so for longer than it was of late
    patience = max(SILENT_SECONDS, 1.3 * float(node.get("longest_silence") or 0.0))
    if node.get("last_heard") and updated - float(node["last_heard"]) > patience:
        return "silent"
    if node.get("overdue"):
        return "late"
    return "training" if node.get("working") else "waiting"


_NUMBERS = (
    "last_seen",
    "last_heard",
    "longest_silence",
    "bytes_up",
    "bytes_down",
    "samples",
    "accuracy",
    "left_out",
)


def checked_status(content: Any) -> dict[str, Any] | None:
    """Return a status as far as it is one: nodes that say which client they are, and numbers where they belong."""
    if not isinstance(content, dict):
        return None
    nodes = content.get("nodes")
    good = [node for node in nodes if _is_node(node)] if isinstance(nodes, list) else []
    updated = content.get("updated")
    return {**content, "nodes": good, "updated": updated if isinstance(updated, int | float) else 0.0}


def _is_node(node: Any) -> bool:
    if not isinstance(node, dict) or not isinstance(node.get("client"), int):
        return False
    # a thousand of them each second
    return all(map(isinstance, map(node.get, _NUMBERS), repeat((int, float, type(None)))))
