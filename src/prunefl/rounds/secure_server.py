"""Secure sums one after another at the server: each is tried a few times, and shares keys for the next."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunefl.privacy.errors import TooFew
from prunefl.privacy.fixed_point import Floats
from prunefl.rounds.messages import Order
from prunefl.rounds.secure_attempt import Ahead, Attempt, Content, Upcoming
from prunefl.rounds.secure_keys import Keyring
from prunefl.rounds.secure_steps import Carry, Traffic
from prunefl.rounds.server import ServerState
from prunefl.rounds.updates import NO_REPLY, RoundFailed

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a round is tried before the run stops for lack of clients."""


@dataclass(frozen=True)
class Summed:
    """What came of a sum.

    Attributes:
        values: the sum by segment.
        alive: whose vectors are in it.
        seconds: client -> compute time that it measured.
        refused: client -> why its vector is not in it.
        repeats: how many attempts failed before.
    """

    values: Mapping[str, Floats]
    alive: tuple[int, ...]
    seconds: Mapping[int, float]
    refused: Mapping[int, str]
    traffic: Traffic
    repeats: int


@dataclass
class SecureSums:
    """All secure sums of a run; `ahead` is what was shared beforehand for the next one."""

    keyring: Keyring
    carry: Carry
    ahead: Ahead | None = None

    def sum_up(
        self,
        state: ServerState,
        orders: Mapping[int, Order],
        purpose: str,
        content: Content,
        upcoming: Upcoming | None = None,
    ) -> Summed:
        """Return the sum of what clients make of their orders; below the threshold all is done once more.

        Args:
            orders: with the model and the work, as without privacy.
            content: what their vectors hold.
            upcoming: the sum that comes next, if it is known.

        Raises:
            RoundFailed: too few clients, in each attempt.
        """
        keyring, traffic, refused = self.keyring, Traffic(), {}
        for attempt in range(ATTEMPTS):
            keyring.prepare(self.carry, state, orders, purpose, traffic)
            ahead = self._take_ahead(orders, purpose)
            plan = ahead.plan if ahead else keyring.plan(sorted(orders), purpose)
            one = Attempt(keyring, self.carry, state, orders, plan, traffic, keyring.list_missing(orders))
            try:
                keyring.need_keys(orders)
                values, alive, seconds = one.sum_up(content, ahead, upcoming)
                self.ahead = one.following
                return Summed(values, alive, seconds, one.refused, traffic, attempt)
            except TooFew as error:
                refused, last = one.refused, error
                log.warning("%s cannot be unmasked: %s; %s", purpose, error, _say_next(attempt))
        raise RoundFailed(
            f"{purpose}: tried {ATTEMPTS} times, and each time too few clients were left for a secure sum "
            f"(privacy.threshold={keyring.rules.threshold:g}): {last}",
            next(iter(orders.values())).round,
            refused or dict.fromkeys(orders, NO_REPLY),
        )

    def _take_ahead(self, orders: Mapping[int, Order], purpose: str) -> Ahead | None:
        """Return what was shared beforehand, once, if it was for this sum."""
        ahead, self.ahead = self.ahead, None
        wanted = (self.keyring.epoch, purpose, tuple(sorted(orders)))
        fits = ahead is not None and (ahead.plan.epoch, ahead.plan.purpose, ahead.plan.cohort) == wanted
        return ahead if fits else None


def _say_next(attempt: int) -> str:
    return "it is repeated" if attempt + 1 < ATTEMPTS else "it is given up"


def find_cap(counts: Sequence[float]) -> int:
    """Return how many samples count fully: as many as the largest client counts for."""
    return max(1, round(max(counts)))
