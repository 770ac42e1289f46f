"""The engine: carries a round's orders to real nodes and brings back what came in time."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prunefl.engines.flower.letters import Letter, LetterError, one_line, seal, unseal
from prunefl.engines.flower.orders import order_letter, text, to_reply
from prunefl.engines.flower.post import Answer, Post
from prunefl.engines.flower.roll import Member, Roll
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState

SLACK = 2.0
"""A letter outlives its deadline by this factor, so that a late answer is still seen to be late."""

INITIAL_SECONDS = 30 * 86400.0
"""Initial pruning has no deadline: an answer that came after its letter had died would have to be begun anew."""


@dataclass(frozen=True)
class Terms:
    """When a round is done.

    Attributes:
        quorum: share of its clients without whose updates it is not finished.
        deadline: seconds after which it is finished with a quorum.
        run: the name of the run, which every order bears.
        config: the config as TOML, for a worker that does not have it.
    """

    quorum: float
    deadline: float
    run: str
    config: str

    def need(self, clients: int) -> int:
        """Return how many updates are enough."""
        return max(1, math.ceil(self.quorum * clients))


@dataclass
class _Round:
    state: ServerState
    orders: Mapping[int, Order]
    number: int
    started: float
    look_at: float = 0.0
    replies: dict[int, Reply] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    asked: dict[int, int] = field(default_factory=dict)

    @property
    def initial(self) -> bool:
        """Initial pruning is many rounds' work on one client, and there is no other to go on with."""
        return any(order.initial for order in self.orders.values())


class Courier:
    """Carries orders; see `prunefl.rounds.loop.Engine`.

    Args:
        whole_order: makes an order that needs no mask agreed upon (`prunefl.rounds.server.whole_order`).
        say: where to tell the user what happens.
        changed: called after every event, for the status file.
    """

    def __init__(
        self,
        post: Post,
        roll: Roll,
        terms: Terms,
        whole_order: Callable[[ServerState, Order], Order],
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._post, self._roll, self._terms = post, roll, terms
        self._whole_order, self._say, self._changed = whole_order, say, changed
        self._by_letter: dict[str, Member] = {}

    def muster(self) -> None:
        """Wait until all clients are there, or, after the deadline, a quorum of them."""
        members = self._roll.members.values()
        started = spoken = time.monotonic()
        while not all(member.there for member in members):
            waited = time.monotonic() - started
            there = sum(member.there for member in members)
            if waited > self._terms.deadline and there >= self._terms.need(len(members)):
                return
            if time.monotonic() - spoken > min(30.0, self._terms.deadline):
                spoken = time.monotonic()
                need = self._terms.need(len(members))
                self._say(f"{there} of {len(members)} clients are there, {need} are needed; waiting")
            self._roll.look()
            for answer in self._post.fetch():
                self._roll.take(answer)
            self._changed()
            time.sleep(0.2)

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Sequence[Reply]:
        """Return the replies of a quorum at least; without one, wait and say so."""
        current = _Round(state, orders, next(iter(orders.values())).round, time.monotonic())
        spoken = 0.0
        while True:
            waited = time.monotonic() - current.started
            overtime = waited > self._terms.deadline
            late = overtime and not current.initial
            self._exchange(current, waited)
            if late:
                self._count_overdue(current)
            if self._enough(current, late):
                break
            if overtime and waited - spoken > self._terms.deadline:
                spoken = waited
                self._say(self._waiting(current))
            # Often at first, then less: the delay stays a fiftieth of the time waited.
            time.sleep(min(1.0, max(0.1, 0.02 * waited)))
        self._by_letter = {m.letter: m for m in self._roll.members.values() if m.letter}
        return list(current.replies.values())

    def _exchange(self, current: _Round, waited: float) -> None:
        """See now and then who is there, send what is due, and take what has come."""
        if waited >= current.look_at:
            current.look_at = waited + min(1.0, 0.2 + 0.05 * waited)
            self._roll.look()
            self._send_where_due(current, waited)
        for answer in self._post.fetch():
            if self._roll.take(answer):
                self._send_where_due(current, waited)
            else:
                self._take(current, answer)

    def snapshot(self) -> dict[str, Any]:
        """Clients keep their own state."""
        return {}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Nothing to bring back: a client finds its own state by the round's number."""

    def refuse(self, client: int, why: str) -> None:
        """Count an update that was left out, and say so."""
        member = self._roll.members[client]
        member.refusals, member.trouble = member.refusals + 1, why
        self._say(f"client {client}: update left out: {why}")
        self._changed()

    def _send_where_due(self, current: _Round, waited: float) -> None:
        """Send the order to who is there and has not had it; once more for every deadline that passes."""
        letters = {}
        tries = 1 + int(waited / self._terms.deadline)
        for client in current.orders:
            member = self._roll.members[client]
            if not member.there or member.letter or client in current.replies:
                continue
            if current.asked.get(client, 0) < tries or member.order != current.number:
                letters[client] = self._letter(current, client)
        self._send(current, letters)

    def _letter(self, current: _Round, client: int) -> bytes:
        order, whole = current.orders[client], client in current.whole
        order = self._whole_order(current.state, order) if whole else order
        return seal(order_letter(order, self._terms.run, self._terms.config if whole else ""))

    def _send(self, current: _Round, letters: Mapping[int, bytes]) -> None:
        by_node = {self._roll.members[client].node: letter for client, letter in letters.items()}
        seconds = INITIAL_SECONDS if current.initial else self._terms.deadline * SLACK + 60.0
        sent = self._post.send(by_node, seconds, str(current.number))
        for client in letters:
            member = self._roll.members[client]
            member.letter, member.order = sent.get(member.node, ""), current.number
            current.asked[client] = current.asked.get(client, 0) + 1
            self._by_letter[member.letter] = member

    def _take(self, current: _Round, answer: Answer) -> None:
        """Enter one answer: a reply, a wish for the whole state, or trouble."""
        member = self._by_letter.pop(answer.message, None)
        if member is None or member.letter != answer.message:
            return
        member.letter, member.seen, member.overdue = "", time.time(), False
        try:
            self._open(current, member, answer)
        except LetterError as error:
            self.refuse(member.client, str(error))
        self._changed()

    def _open(self, current: _Round, member: Member, answer: Answer) -> None:
        if answer.trouble:
            raise LetterError(answer.trouble)
        letter = unseal(answer.content)
        if letter.kind == "trouble":
            raise LetterError(one_line(text(letter.values, "what")))
        if member.order != current.number or member.client not in current.orders:
            raise LetterError(f"its answer for round {member.order} came late")
        if letter.kind == "whole" and member.client not in current.whole:
            current.whole.add(member.client)
            self._send(current, {member.client: self._letter(current, member.client)})
        else:
            # its weight in the mean is what it said when it came, which `prunefl status` shows
            current.replies[member.client] = replace(
                to_reply(letter, member.client), num_samples=member.num_samples
            )

    def _enough(self, current: _Round, late: bool) -> bool:
        """Return whether the round can be finished: all have answered that we wait for, or time is up."""
        if len(current.replies) < self._terms.need(len(current.orders)):
            return False
        missing = [self._roll.members[client] for client in current.orders if client not in current.replies]
        return late or not any(self._expected(member) for member in missing)

    def _expected(self, member: Member) -> bool:
        """Return whether to wait for this client: it works for us, or is just coming back."""
        working = member.there and bool(member.letter) and not member.overdue
        return working or (self._roll.coming(member) and not member.overdue)

    def _count_overdue(self, current: _Round) -> None:
        for client in current.orders:
            member = self._roll.members[client]
            if member.letter and client not in current.replies and not member.overdue:
                member.overdue = True
                self.refuse(client, f"no answer in round {current.number}")

    def _waiting(self, current: _Round) -> str:
        missing = ", ".join(str(client) for client in current.orders if client not in current.replies)
        return (
            f"round {current.number}: {len(current.replies)} of {len(current.orders)} updates, "
            f"{self._terms.need(len(current.orders))} are needed (server.quorum={self._terms.quorum}); "
            f"waiting for client {missing}"
        )

    def say_farewell(self, seconds: float = 10.0) -> None:
        """Tell every node that the run is over; who is not there finds out by himself."""
        there = {m.node: m for m in self._roll.members.values() if m.there}
        sent = self._post.send(dict.fromkeys(there, seal(Letter("farewell"))), 60.0, "end")
        # who is still at an order reads it afterwards
        waiting = {name for node, name in sent.items() if not there[node].letter}
        limit = time.monotonic() + seconds
        while waiting and time.monotonic() < limit:
            waiting -= {answer.message for answer in self._post.fetch()}
            time.sleep(0.05)
