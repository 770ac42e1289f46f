"""Rounds one after another. An engine is nothing but a way to carry orders to clients and replies back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Protocol

from prunefl.rounds.evaluation import evaluates_at_clients
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.private import can_go_on
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

    @property
    def run(self) -> str:
        """The run's name, as clients know it, too."""

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterable[Reply]:
        """Return the replies that came, perhaps one after another."""

    def take_keys(self, epoch: int) -> Mapping[int, tuple[int, bytes]]:
        """Return client -> epoch and signed key for secure sums, of those who have joined since the last call.

        Who joins from now on is asked for a key of this epoch.
        """

    def snapshot(self) -> dict[str, Any]:
        """Return, as JSON, what a checkpoint has to remember of the engine."""

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to a snapshot."""


def run_rounds(setup: Setup, state: ServerState, engine: Engine) -> Iterator[tuple[ServerState, Outcome]]:
    """Yield the state and the outcome after initial pruning, if there is any, and after each round."""
    if setup.config.privacy.secure:
        yield from _run_secure_rounds(setup, state, engine)
        return
    while state.round < setup.config.run.rounds and can_go_on(setup, state):
        begun, orders = begin_round(setup, state)
        # from the state before: what quantisation kept back then is in the orders, and in a whole state packed later
        state, outcome = finish_round(setup, begun, orders, engine.carry(state, orders))
        if evaluated := clients_to_evaluate(setup, state, outcome):
            orders = begin_evaluation(setup, state, evaluated)
            state, found = finish_evaluation(setup, state, orders, engine.carry(state, orders))
            outcome = replace(outcome, evaluation=found)
        yield state, outcome


def _run_secure_rounds(
    setup: Setup, state: ServerState, engine: Engine
) -> Iterator[tuple[ServerState, Outcome]]:
    """Yield the same of rounds of which the server sees sums alone."""
    # needs packages that nothing else here does
    from prunefl.rounds.secure_attempt import Upcoming
    from prunefl.rounds.secure_keys import Keyring
    from prunefl.rounds.secure_round import (
        finish_secure_evaluation,
        finish_secure_round,
        name_evaluation,
        name_round,
    )
    from prunefl.rounds.secure_server import SecureSums

    sums = SecureSums(Keyring(setup, engine.run, engine.take_keys), engine.carry)
    cohort = setup.choose_cohort(state.round + 1)
    while state.round < setup.config.run.rounds and can_go_on(setup, state):
        begun, orders = begin_round(setup, state, cohort)
        round = state.round + 1
        next_round = None
        if round < setup.config.run.rounds:
            # drawn once: with privacy.noise no two draws are the same
            cohort = setup.choose_cohort(round + 1)
            next_round = Upcoming(name_round(round + 1), tuple(cohort))
        evaluated = choose_evaluators(setup, round, sorted(orders))
        upcoming = Upcoming(name_evaluation(round), tuple(evaluated)) if evaluated else next_round
        state, outcome = finish_secure_round(setup, state, begun, orders, sums, upcoming)
        if evaluated:
            orders = begin_evaluation(setup, state, evaluated)
            state, found = finish_secure_evaluation(setup, state, orders, sums, next_round)
            outcome = replace(outcome, evaluation=found)
        yield state, outcome


def clients_to_evaluate(setup: Setup, state: ServerState, outcome: Outcome) -> Sequence[int]:
    """Return who evaluates after a round: its cohort, after the last round all clients, else nobody."""
    return choose_evaluators(setup, state.round, outcome.cohort, outcome.opponents.keys())


def choose_evaluators(
    setup: Setup, round: int, cohort: Sequence[int], gone: Set[int] = frozenset()
) -> Sequence[int]:
    """Return the same of a round by its number and its cohort; who has `gone` in it is not asked."""
    if not evaluates_at_clients(round, setup.config):
        return []
    asked = cohort if round < setup.config.run.rounds else setup.members
    return [client for client in asked if client not in setup.left_out | gone]
