"""The engine: carries a round's orders to real nodes and brings back what came in time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prunefl.engines.flower import Say
from prunefl.engines.flower.codec import decode_reply, encode_order, read_number
from prunefl.engines.flower.current_round import Round, name_exchange
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, seal
from prunefl.engines.flower.mailbox import Answer, Messages
from prunefl.engines.flower.membership import Member, Membership
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState
from prunefl.rounds.updates import count_needed, name_need

SLACK = 2.0
"""A message outlives its deadline by this factor, so that a late answer is still seen to be late."""


@dataclass(frozen=True)
class Terms:
    """When a round is done.

    Attributes:
        quorum: share of its clients without whose updates it is not finished;
            `min_clients` is their number instead, if that is given.
        deadline: seconds after which it is finished with a quorum.
        initial_deadline: seconds that initial pruning may take, many rounds' work, each pass of it no longer than
            `deadline`; and no more than `initial_passes` of them.
        run: the name of the run, which every order bears.
        config: the config as TOML, for a worker that does not have it.
        plan: the network as clients train it, "" where they build it themselves.
    """

    quorum: float
    deadline: float
    initial_deadline: float
    run: str
    config: str
    plan: str = ""
    min_clients: int = 0
    initial_passes: int = 1 << 31

    def need(self, clients: int) -> int:
        """Return how many updates are enough."""
        return count_needed(self.quorum, self.min_clients, clients)


class FlowerEngine:
    """Carries orders; see `prunefl.rounds.loop.Engine`.

    Args:
        whole_order: makes an order that needs no mask agreed upon (`prunefl.rounds.server.whole_order`).
        say: where to tell the user what happens.
        on_change: called after every event, for the status file.
    """

    def __init__(
        self,
        mailbox: Messages,
        membership: Membership,
        terms: Terms,
        whole_order: Callable[[ServerState, Order], Order],
        say: Say,
        on_change: Callable[[], None],
    ) -> None:
        self._mailbox, self._membership, self._terms = mailbox, membership, terms
        self._whole_order, self._say, self._on_change = whole_order, say, on_change
        self._by_message: dict[str, Member] = {}

    @property
    def run(self) -> str:
        """The run's name, which every order bears."""
        return self._terms.run

    def wait_for_clients(self) -> None:
        """Wait until all clients are there (after the deadline a quorum), or as many as the terms say."""
        members = self._membership.members.values()
        started = spoken = time.monotonic()
        while (there := sum(member.online for member in members)) < len(members):
            waited = time.monotonic() - started
            patient = not self._terms.min_clients and waited <= self._terms.deadline
            if not patient and there >= self._terms.need(len(members)):
                return
            if time.monotonic() - spoken > min(30.0, self._terms.deadline):
                spoken = time.monotonic()
                need = self._terms.need(len(members))
                self._say(f"{there} of {len(members)} clients are there, {need} are needed; waiting")
            self._membership.refresh()
            for answer in self._mailbox.fetch():
                self._membership.accept(answer)
            self._on_change()
            self._mailbox.wait(0.2)

    def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Sequence[Reply]:
        """Return the replies of a quorum at least; without one, wait and say so."""
        current = Round(state, orders, name_exchange(orders), time.monotonic())
        spoken = 0.0
        while True:
            waited = time.monotonic() - current.started
            late = waited > self._find_deadline(current)
            self._exchange(current, waited)
            if late:
                self._mark_overdue(current)
            # who prunes first can be another one
            if self._can_finish(current, late) or (current.initial and (late or self._is_stuck(current))):
                break
            if waited > self._terms.deadline and waited - spoken > self._terms.deadline:
                spoken = waited
                self._say(self._describe_waiting(current))
            self._on_change()
            # Without a bell, often at first, then less: the delay stays a fiftieth of the time waited.
            self._mailbox.wait(min(1.0, max(0.1, 0.02 * waited)))
        self._by_message = {m.message: m for m in self._membership.members.values() if m.message}
        return list(current.replies.values())

    def _is_stuck(self, current: Round) -> bool:
        """Give up whose initial pruning does not advance; return whether nobody else is left to wait for."""
        for client in current.give_up_stuck(time.monotonic(), self._terms.deadline):
            self._membership.members[client].overdue = True
            self.refuse(client, f"no progress in {current.name} for {self._terms.deadline:g} s")
        return current.orders.keys() <= current.replies.keys() | current.given_up

    def _exchange(self, current: Round, waited: float) -> None:
        """See now and then who is there, send what is due, and take what has come."""
        if waited >= current.look_at:
            current.look_at = waited + min(1.0, 0.2 + 0.05 * waited)
            self._membership.refresh()
            self._send_where_due(current, waited)
        for answer in self._mailbox.fetch():
            if self._membership.accept(answer):
                self._send_where_due(current, waited)
            else:
                self._enter(current, answer)

    def take_keys(self, epoch: int) -> Mapping[int, tuple[int, bytes]]:
        """Return the keys for secure sums of those who have joined since the last call."""
        return self._membership.take_keys(epoch)

    def snapshot(self) -> dict[str, Any]:
        """Clients keep their own state."""
        return {}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Nothing to bring back: a client finds its own state by the round's number."""

    def _find_deadline(self, current: Round) -> float:
        return self._terms.initial_deadline if current.initial else self._terms.deadline

    def leave_out(self, clients: Mapping[int, str]) -> None:
        """Show who is not asked any more, and why."""
        for client, why in clients.items():
            self._membership.members[client].barred = why
        self._on_change()

    def note_bounded(self, client: int, words: str) -> None:
        """Say what of a client's reply was out of bounds; it counts all the same, as far as it may."""
        self._membership.members[client].refusal = words
        self._say(f"client {client}: {words}")
        self._on_change()

    def refuse(self, client: int, why: str) -> None:
        """Count an update that was left out, and say so."""
        member = self._membership.members[client]
        member.refusals, member.refusal = member.refusals + 1, why
        self._say(f"client {client}: update left out: {why}")
        self._on_change()

    def _send_where_due(self, current: Round, waited: float) -> None:
        """Send the order to who is there and has not had it; once more for every deadline that passes."""
        sealed = {}
        tries = 1 + int(waited / self._find_deadline(current))
        for client in current.orders:
            member = self._membership.members[client]
            if not member.online or member.message or client in current.replies:
                continue
            if current.asked.get(client, 0) < tries or member.asked != current.name:
                sealed[client] = self._seal_order(current, client)
        self._send(current, sealed)

    def _seal_order(self, current: Round, client: int) -> bytes:
        order = current.orders[client]
        if client in current.state_wanted:
            whole = self._whole_order(current.state, order)
            return seal(encode_order(whole, self._terms.run, self._terms.config, self._terms.plan))
        return seal(encode_order(order, self._terms.run))

    def _send(self, current: Round, sealed: Mapping[int, bytes]) -> None:
        by_node = {self._membership.members[client].node: data for client, data in sealed.items()}
        seconds = self._find_deadline(current) * SLACK + 60.0
        sent = self._mailbox.send(by_node, seconds, current.name)
        for client in sealed:
            member = self._membership.members[client]
            member.message, member.asked = sent.get(member.node, ""), current.name
            current.asked[client] = current.asked.get(client, 0) + 1
            member.bytes_down += len(sealed[client])
            self._by_message[member.message] = member

    def _enter(self, current: Round, answer: Answer) -> None:
        """Enter one answer: a reply, a wish for the whole state, or an error."""
        member = self._by_message.pop(answer.message, None)
        if member is None or member.message != answer.message:
            return
        member.message, member.last_seen, member.overdue = "", time.time(), False
        member.bytes_up += len(answer.content)
        try:
            self._read(current, member, answer)
        except EnvelopeError as error:
            self.refuse(member.client, str(error))
            if answer.leaves:
                self._membership.let_go(member, str(error))
        self._on_change()

    def _read(self, current: Round, member: Member, answer: Answer) -> None:
        envelope = answer.open()
        if member.asked != current.name or member.client not in current.orders:
            raise EnvelopeError(f"its answer for {member.asked} came late")
        if envelope.kind == "state_wanted" and member.client not in current.state_wanted:
            current.state_wanted.add(member.client)
            self._send(current, {member.client: self._seal_order(current, member.client)})
        elif envelope.kind == "working" and current.initial:
            self._note_progress(current, member, read_number(envelope.values, "passes", int))
        else:
            # its weight in the mean is what it said when it came, which `prunefl status` shows
            current.replies[member.client] = replace(
                decode_reply(envelope, member.client),
                num_samples=member.num_samples,
                held_out=member.held_out,
            )

    def _note_progress(self, current: Round, member: Member, passes: int) -> None:
        """Take note of how far a client is that prunes first, and have it go on, unless it was given up."""
        most = self._terms.initial_passes
        if not 0 <= passes <= most:
            raise EnvelopeError(f"it says that it has done {passes} passes, must be between 0 and {most}")
        current.note_passes(member.client, passes, time.monotonic())
        if member.client not in current.given_up:
            self._send(current, {member.client: seal(Envelope("go_on", {"run": self._terms.run}))})

    def _can_finish(self, current: Round, late: bool) -> bool:
        """Return whether the round can be finished: all have answered that we wait for, or time is up."""
        if len(current.replies) < self._terms.need(len(current.orders)):
            return False
        missing = [
            self._membership.members[client] for client in current.orders if client not in current.replies
        ]
        return late or not any(self._is_awaited(member) for member in missing)

    def _is_awaited(self, member: Member) -> bool:
        """Return whether to wait for this client: it works for us, or is just coming back."""
        working = member.online and bool(member.message) and not member.overdue
        return working or (self._membership.is_joining(member) and not member.overdue)

    def _mark_overdue(self, current: Round) -> None:
        for client in current.orders:
            member = self._membership.members[client]
            if member.message and client not in current.replies and not member.overdue:
                member.overdue = True
                self.refuse(client, f"no answer in {current.name}")

    def _describe_waiting(self, current: Round) -> str:
        missing = ", ".join(str(client) for client in current.orders if client not in current.replies)
        return (
            f"{current.name}: {len(current.replies)} of {len(current.orders)} updates, "
            f"{self._terms.need(len(current.orders))} are needed "
            f"({name_need(self._terms.quorum, self._terms.min_clients)}); "
            f"waiting for client {missing}"
        )

    def end_run(self, seconds: float = 10.0) -> None:
        """Tell every node that the run is over; who is not there finds out by himself."""
        there = {m.node: m for m in self._membership.members.values() if m.online}
        sent = self._mailbox.send(dict.fromkeys(there, seal(Envelope("end"))), 60.0, "end")
        # who is still at an order reads it afterwards
        waiting = {name for node, name in sent.items() if not there[node].message}
        limit = time.monotonic() + seconds
        while waiting and time.monotonic() < limit:
            waiting -= {answer.message for answer in self._mailbox.fetch()}
            self._mailbox.wait(0.05)
