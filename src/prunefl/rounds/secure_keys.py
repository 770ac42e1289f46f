"""The clients' channel keys as the server passes them on: signed, and good from one reconfiguration to the next.

Keys of the next epoch are there before it begins: clients make them when they join, and beside other steps.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prunefl.privacy.errors import TooFew
from prunefl.privacy.graph import count_needed
from prunefl.privacy.messages import Plan
from prunefl.privacy.server import Rules
from prunefl.rounds.messages import Order
from prunefl.rounds.secure_steps import Carry, Request, Traffic, carry_step, parse_given
from prunefl.rounds.server import ServerState, Setup

TakeKeys = Callable[[int], Mapping[int, tuple[int, bytes]]]
"""Returns client -> epoch and signed key of those who have joined since the last call; who joins from now on is asked
for a key of the epoch given."""


@dataclass
class Keyring:
    """The keys of an epoch, and those of the next.

    Attributes:
        run: the run's name, which clients know, too.
        take_keys: gives what clients have said of their keys when they joined.
        keys: client -> its signed key of this epoch, of those who have it still.
        masks: those of the epoch; none yet, where it has begun before they were chosen.
        shown: client -> whose keys it has been shown.
        coming, ahead: the next epoch, and the keys for it.
        asked: whether all members have been asked for those.
    """

    setup: Setup
    run: str
    take_keys: TakeKeys
    epoch: int = 0
    masks: bytes = b""
    last: int = 0
    keys: dict[int, bytes] = field(default_factory=dict)
    shown: dict[int, set[int]] = field(default_factory=dict)
    coming: int = 0
    ahead: dict[int, bytes] = field(default_factory=dict)
    asked: bool = False

    @property
    def rules(self) -> Rules:
        """What every client insists on."""
        privacy = self.setup.config.privacy
        return Rules(privacy.threshold, privacy.neighbours)

    def next_number(self) -> int:
        """Return a number larger than all before, also than those of a run that this one resumes: microseconds."""
        self.last = max(self.last + 1, time.time_ns() // 1000)
        return self.last

    def plan(self, cohort: Sequence[int], purpose: str) -> Plan:
        """Return a new sum of those who have a key; nothing could be sealed for others."""
        there = tuple(client for client in cohort if client in self.keys)
        return Plan(self.run, self.epoch, self.next_number(), purpose, there)

    def need_keys(self, orders: Mapping[int, Order]) -> None:
        """Raise TooFew where fewer have a key than have to remain."""
        there, needed = len(orders.keys() & self.keys.keys()), self._count_needed(orders)
        if there < needed:
            raise TooFew(f"{there} of {len(orders)} clients have introduced themselves, {needed} are needed")

    def _count_needed(self, orders: Mapping[int, Order]) -> int:
        return count_needed(len(orders), self.rules.threshold)

    def prepare(
        self,
        carry: Carry,
        state: ServerState,
        orders: Mapping[int, Order],
        purpose: str,
        traffic: Traffic,
    ) -> None:
        """Begin a new epoch where masks have changed, or somebody has a key for the next one alone.

        Who has none is left out of the sum, and asked beside it; all are asked first where too few would be left.
        """
        self._enter_joined(traffic)
        masks = state.sparse.masks.digest
        self.masks = self.masks or masks
        now, then = orders.keys() & self.keys.keys(), orders.keys() & self.ahead.keys()
        enough = self._count_needed(orders)
        if self.epoch and masks == self.masks and len(now) >= enough and not now < then:
            return
        if len(then) < enough:
            asked = {client: Request(epoch=self.coming) for client in self.list_to_ask(orders)}
            wanted = {c: one.order(max(1, state.round), self.coming, purpose) for c, one in asked.items()}
            for client, answer in carry_step(carry, state, wanted, traffic, {})[0].items():
                self.enter(client, parse_given(answer).introduction, traffic)
        self.begin_epoch(masks)

    def _enter_joined(self, traffic: Traffic) -> None:
        """Take the keys of who has joined: he has no others, whatever he said before."""
        self.coming = self.coming or self.next_number()
        joined = self.take_keys(self.coming)
        if joined and not self.epoch and not self.ahead:
            # made when the first clients came, before there was a round
            self.coming = max(epoch for epoch, _ in joined.values())
            self.last = max(self.last, self.coming)
        for client, (epoch, introduction) in joined.items():
            self.forget(client)
            if epoch == self.coming:
                traffic.up.setdefault(client, []).append(len(introduction))
                self.enter(client, introduction, traffic)

    def enter(self, client: int, introduction: bytes, traffic: Traffic) -> None:
        """Enter a client's key of the next epoch."""
        if introduction:
            self.ahead[client] = introduction
            traffic.setup += len(introduction)

    def forget(self, client: int) -> None:
        """Use no key of a client that may have begun anew, or not have read what it was shown."""
        for known in (self.keys, self.shown, self.ahead):
            known.pop(client, None)

    def list_to_ask(self, cohort: Iterable[int]) -> list[int]:
        """Return who is to make a key for the next epoch: all members once, of these whoever has none yet."""
        wanted = list(cohort)
        if not self.asked:
            wanted = [client for client in self.setup.members if client not in self.setup.left_out]
        self.asked = True
        return [client for client in wanted if client not in self.ahead]

    def begin_epoch(self, masks: bytes = b"") -> None:
        """Begin the next epoch with the keys that there are for it; masks may not be known yet."""
        self.epoch, self.keys, self.masks, self.shown = self.coming, self.ahead, masks, {}
        self.coming, self.ahead, self.asked = self.next_number(), {}, False

    def list_missing(self, orders: Mapping[int, Order]) -> dict[int, str]:
        """Return who has no key, with words for it."""
        return {client: "it has not introduced itself" for client in orders if client not in self.keys}
