"""Rounds one after another. An engine is nothing but a way to carry orders to clients and replies back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from prunefl.rounds.evaluation import evaluates_at_clients
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import (
    Outcome,
    ServerState,
    Setup,
    begin_evaluation,
    begin_round,
    finish_evaluation,
    finish_round,
)


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
        if evaluated := clients_to_evaluate(setup, state, outcome):
            orders = begin_evaluation(setup, state, evaluated)
            state, found = finish_evaluation(setup, state, orders, engine.carry(state, orders))
            outcome = replace(outcome, evaluation=found)
        yield state, outcome


def clients_to_evaluate(setup: Setup, state: ServerState, outcome: Outcome) -> Sequence[int]:
    """Return who evaluates after a round: its cohort, after the last round all clients, else nobody."""
    if not evaluates_at_clients(state.round, setup.config):
        return []
    if state.round < setup.config.run.rounds:
        return outcome.cohort
    return [client for client in setup.members if client not in setup.left_out]
