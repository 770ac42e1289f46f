"""The clients' channel keys as the server passes them on: signed, and good from one reconfiguration to the next."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prunefl.privacy.errors import TooFew
from prunefl.privacy.graph import count_needed
from prunefl.privacy.messages import Plan
from prunefl.privacy.server import Rules
from prunefl.rounds.messages import Order, SecureWork
from prunefl.rounds.secure_steps import Carry, Traffic, carry_step
from prunefl.rounds.server import ServerState, Setup


@dataclass
class Keyring:
    """The keys of an epoch.

    Attributes:
        run: the run's name, which clients know, too.
        keys: client -> its signed key of this epoch, which is that of `masks`, of those who have it still.
        pinned: the same of all that ever had one in it: others have believed it, and will believe no second.
        shown: client -> whose keys it has been shown.
    """

    setup: Setup
    run: str
    epoch: int = 0
    masks: bytes = b""
    last: int = 0
    keys: dict[int, bytes] = field(default_factory=dict)
    pinned: dict[int, bytes] = field(default_factory=dict)
    shown: dict[int, set[int]] = field(default_factory=dict)

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
        there, needed = len(orders.keys() & self.keys.keys()), count_needed(len(orders), self.rules.threshold)
        if there < needed:
            raise TooFew(f"{there} of {len(orders)} clients have introduced themselves, {needed} are needed")

    def introduce(
        self,
        carry: Carry,
        state: ServerState,
        orders: Mapping[int, Order],
        purpose: str,
        traffic: Traffic,
    ) -> None:
        """Have clients make keys: all where masks have changed, and the cohort where somebody of it has none.

        Who has one says it again; who has begun anew has another, and all have to.
        """
        masks = state.sparse.masks.digest
        if self.epoch and masks == self.masks and orders.keys() <= self.keys.keys():
            return
        before, asked = traffic.num_bytes, list(orders)
        if masks != self.masks:
            self._begin_epoch(masks)
            asked = self._list_members()
        found = self._ask_for_keys(carry, state, asked, purpose, traffic)
        if any(self.pinned.get(client, key) != key for client, key in found.items()):
            self._begin_epoch(masks)
            found = self._ask_for_keys(carry, state, self._list_members(), purpose, traffic)
        self.keys |= found
        self.pinned |= found
        traffic.setup += traffic.num_bytes - before

    def _begin_epoch(self, masks: bytes) -> None:
        self.epoch, self.masks = self.next_number(), masks
        self.keys, self.pinned, self.shown = {}, {}, {}

    def _ask_for_keys(
        self, carry: Carry, state: ServerState, asked: Sequence[int], purpose: str, traffic: Traffic
    ) -> dict[int, bytes]:
        work = SecureWork(step="introduce", purpose=purpose)
        orders = {client: Order(max(1, state.round), 0.0, b"", work, self.epoch) for client in asked}
        return carry_step(carry, state, orders, traffic, {})[0]

    def _list_members(self) -> list[int]:
        return [client for client in self.setup.members if client not in self.setup.left_out]

    def list_missing(self, orders: Mapping[int, Order]) -> dict[int, str]:
        """Return who has no key, with words for it."""
        return {client: "it has not introduced itself" for client in orders if client not in self.keys}
