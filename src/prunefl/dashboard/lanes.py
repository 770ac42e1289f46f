"""The clients of a run, each with what was last heard of it: from the status file, or from records alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SILENT_SECONDS = 4.0
"""A node asks for work at least every three seconds; one that is silent for longer has been cut off or killed."""

KEPT_ROUNDS = 60
"""Rounds of which each lane shows what became of the client in it."""

WORDS = 300
"""Letters of a refusal that are shown."""


@dataclass
class Lane:
    """What records say of one client.

    Attributes:
        history: one letter a round, the newest last: t took part, r refused, . not asked.
    """

    rounds: int = 0
    refusals: int = 0
    refusal: str = ""
    accuracy: float | None = None
    last_round: int = 0


@dataclass
class Lanes:
    """All clients of a run."""

    lanes: dict[int, Lane] = field(default_factory=dict)
    history: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Enter what a round's record says of its clients."""
        refused = record.get("refused") or {}
        letters = ["."] * self.count
        for client in record.get("clients") or ():
            if not isinstance(client, int) or not 0 <= client < self.count:
                continue
            lane = self.lanes.setdefault(client, Lane())
            why = refused.get(str(client))
            letters[client] = "t" if why is None else "r"
            lane.rounds, lane.last_round = lane.rounds + (why is None), record["round"]
            if why is not None:
                lane.refusals, lane.refusal = lane.refusals + 1, str(why)[:WORDS]
        self.history = [*self.history[1 - KEPT_ROUNDS :], (record["round"], "".join(letters))]
        self._enter_scores(record.get("evaluation") or {})

    def _enter_scores(self, evaluation: Mapping[str, Any]) -> None:
        for client, (right, samples) in (evaluation.get("by_client") or {}).items():
            if client.isdigit() and int(client) < self.count:
                self.lanes.setdefault(int(client), Lane()).accuracy = right / samples

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
        rows = []
        for client in range(self.count):
            lane, node = self.lanes.get(client, Lane()), nodes.get(client)
            if node is None:
                state = (
                    "–"
                    if not is_live
                    else "late"
                    if lane.refusal and self._refused_last(client)
                    else "in use"
                )
                rows.append(
                    [
                        client,
                        state,
                        lane.refusal,
                        None,
                        None,
                        None,
                        None,
                        lane.accuracy,
                        lane.rounds,
                        lane.refusals,
                    ]
                )
                continue
            accuracy = node.get("accuracy") if node.get("accuracy") is not None else lane.accuracy
            rows.append(
                [
                    client,
                    state_of(node, updated) if is_live else "–",
                    str(node.get("refusal") or lane.refusal)[:WORDS],
                    node.get("last_seen") or None,
                    node.get("bytes_up"),
                    node.get("bytes_down"),
                    node.get("samples") or None,
                    accuracy,
                    lane.rounds,
                    max(lane.refusals, int(node.get("left_out") or 0)),
                ]
            )
        return rows

    def _refused_last(self, client: int) -> bool:
        return bool(self.history) and self.history[-1][1][client : client + 1] == "r"


def state_of(node: Mapping[str, Any], updated: float) -> str:
    """Return in a word what a node of a federation is doing, as of the time of its status."""
    if node.get("barred") and not node.get("online"):
        return "refused"
    if not node.get("online"):
        return "away"
    if node.get("last_heard") and updated - float(node["last_heard"]) > SILENT_SECONDS:
        return "silent"
    if node.get("overdue"):
        return "late"
    return "training" if node.get("working") else "waiting"


_NUMBERS = ("last_seen", "last_heard", "bytes_up", "bytes_down", "samples", "accuracy", "left_out")


def checked_status(content: Any) -> dict[str, Any] | None:
    """Return a status as far as it is one: nodes that say which client they are, and numbers where they belong."""
    if not isinstance(content, dict):
        return None
    nodes = content.get("nodes")
    good = [node for node in nodes if _is_node(node)] if isinstance(nodes, list) else []
    updated = content.get("updated")
    return {**content, "nodes": good, "updated": updated if isinstance(updated, int | float) else 0.0}


def _is_node(node: Any) -> bool:
    return (
        isinstance(node, dict)
        and isinstance(node.get("client"), int)
        and all(node.get(key) is None or isinstance(node[key], int | float) for key in _NUMBERS)
    )
