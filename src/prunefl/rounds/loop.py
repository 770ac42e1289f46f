"""Rounds one after another. An engine is nothing but a way to carry orders to clients and replies back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import Outcome, ServerState, Setup, begin_round, finish_round


class Engine(Protocol):
    """Carries orders and replies, and says what it wants to find again after a resume."""

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterable[Reply]:
        """Return the replies that came, perhaps one after another."""

    def snapshot(self) -> dict[str, Any]:
        """Return, as JSON, what a checkpoint has to remember of the engine."""

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to a snapshot."""


def run_rounds(setup: Setup, state: ServerState, engine: Engine) -> Iterator[tuple[ServerState, Outcome]]:
    """Yield the state and the outcome after initial pruning, if there is any, and after each round."""
    while state.round < setup.config.run.rounds:
        begun, orders = begin_round(setup, state)
        # from the state before: what quantisation kept back then is in the orders, and in a whole state packed later
        state, outcome = finish_round(setup, begun, orders, engine.carry(state, orders))
        yield state, outcome
