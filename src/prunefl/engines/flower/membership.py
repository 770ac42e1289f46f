"""Who takes part: nodes are greeted, say which client they are, and are then known by it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prunefl.data.task import spoken
from prunefl.engines.flower import Say
from prunefl.engines.flower.codec import read_counts, read_number
from prunefl.engines.flower.envelope import Envelope, EnvelopeError, seal
from prunefl.engines.flower.mailbox import Answer, Messages


@dataclass
class Member:
    """What the server knows of one client.

    Attributes:
        node: Flower's number of its node, 0 before it first came.
        since: when that node's process started; another time means another process.
        online: whether it is connected now.
        num_samples, held_out: how many samples it says it trains on, and how many it holds out.
        by_class: how many of both are of each class, () if it does not tell.
        message: the message it has yet to answer, "" if none; `asked` is what for, such as "round 7".
        overdue: it let a deadline pass and has not been heard of since: nobody waits for it.
        last_seen: Unix time at which it was last heard of, 0 if never.
        barred: why it cannot take part, "" if it can or has not been here.
        refusals: how many of its updates were left out; `refusal` is why the last was.
        bytes_up, bytes_down: what it has sent and was sent since the server started.
        accuracy: of the model that it evaluated last, on the samples that it holds out; `personal`: of its own model.
    """

    client: int
    node: int = 0
    since: str = ""
    online: bool = False
    num_samples: int = 0
    held_out: int = 0
    by_class: tuple[int, ...] = ()
    message: str = ""
    asked: str = ""
    overdue: bool = False
    last_seen: float = 0.0
    barred: str = ""
    refusals: int = 0
    refusal: str = ""
    bytes_up: int = 0
    bytes_down: int = 0
    accuracy: float | None = None
    personal: float | None = None


MOST_TURNED_AWAY = 20
"""Without keys anybody can say to be anybody: the list must not grow with them."""


class Membership:
    """The clients by number, kept up to date.

    Attributes:
        turned_away: why those cannot take part that are no members, or whose place is taken.

    Args:
        keys: node -> client, for nodes with registered keys; empty where nodes are believed (--insecure).
        hello: the envelope that greets a node; its answer says which client it is, with how many samples.
        patience: seconds after which a node that did not answer is greeted again.
        only: numbers of the clients that take part; () for all.
        epoch: for which clients make keys for secure sums when they join; 0 for none.
    """

    def __init__(
        self,
        mailbox: Messages,
        clients: int,
        keys: Mapping[int, int],
        hello: Envelope,
        patience: float,
        say: Say,
        only: Sequence[int] = (),
        epoch: int = 0,
    ) -> None:
        self.members = {client: Member(client) for client in only or range(clients)}
        self.turned_away: dict[int, str] = {}
        self._mailbox, self._keys, self._hello = mailbox, keys, hello
        self._patience, self._say = patience, say
        self._greeted: dict[int, tuple[str, float]] = {}
        self._hellos: dict[str, tuple[int, str]] = {}
        self.epoch, self._introduced = epoch, dict[int, tuple[int, bytes]]()

    def refresh(self) -> None:
        """See who is online and greet who is new."""
        online = self._mailbox.list_online()
        for member in self.members.values():
            member.online = online.get(member.node) == member.since and bool(member.node)
        known = {member.node for member in self.members.values() if member.online}
        now = time.monotonic()
        new = {}
        for node, since in online.items():
            before, when = self._greeted.get(node, ("?", 0.0))
            if node not in known and (before != since or now - when > self._patience):
                new[node] = seal(self._greet())
                self._greeted[node] = (since, now)
        sent = self._mailbox.send(new, self._patience, "hello")
        self._hellos |= {name: (node, online[node]) for node, name in sent.items()}

    def _greet(self) -> Envelope:
        if not self.epoch:
            return self._hello
        return replace(self._hello, values={**self._hello.values, "epoch": self.epoch})

    def take_keys(self, epoch: int) -> dict[int, tuple[int, bytes]]:
        """Return what clients said of their keys when they joined, once; who joins now is asked for this epoch's."""
        self.epoch, found, self._introduced = epoch, self._introduced, {}
        return found

    def is_joining(self, member: Member) -> bool:
        """Return whether this client has been greeted and not answered yet."""
        nodes = {node for node, _ in self._hellos.values()}
        return member.node in nodes or any(self._keys.get(node) == member.client for node in nodes)

    def accept(self, answer: Answer) -> bool:
        """Enter who answers a greeting, or say why not; return False if the answer is to something else."""
        if answer.message not in self._hellos:
            return False
        node, since = self._hellos.pop(answer.message)
        try:
            self._enter(node, since, answer)
        except EnvelopeError as error:
            self._bar(node, answer, str(error))
        return True

    def _bar(self, node: int, answer: Answer, why: str) -> None:
        """Remember and say why a node cannot take part, and let it know that this was heard."""
        client = self._keys.get(node, answer.claimed_client)
        if client in self.members and not self.members[client].online:
            self.members[client].barred, self.members[client].last_seen = why, time.time()
        elif client is not None and len(self.turned_away) < MOST_TURNED_AWAY:
            self.turned_away[client] = why
        self._say(f"{'a node' if client is None else f'client {client}'} cannot take part: {why}")
        if answer.is_error:
            self._mailbox.send({node: seal(Envelope("refused"))}, 60.0, "refused")

    def let_go(self, member: Member, why: str) -> None:
        """A client says that it cannot take part any more: let it know that this was heard."""
        self._say(f"client {member.client} leaves: {why}")
        member.barred, member.online, member.since = why, False, ""
        self._mailbox.send({member.node: seal(Envelope("refused"))}, 60.0, "refused")

    def _enter(self, node: int, since: str, answer: Answer) -> None:
        """Make a node the client that it says it is, if it may be that one."""
        envelope = answer.open()
        values = envelope.values
        client, samples = read_number(values, "client", int), read_number(values, "num_samples", int)
        if self._keys and self._keys.get(node) != client:
            raise EnvelopeError(
                f"it says --client {client}, but its key is that of client {self._keys.get(node)}"
            )
        if client not in self.members:
            taking_part = spoken(list(map(str, self.members)))
            raise EnvelopeError(f"it says --client {client}, but only {taking_part} take part in this run")
        held_out = read_number({"held_out": 0, **values}, "held_out", int)
        if held_out < 0:
            raise EnvelopeError(f"it holds out {held_out} samples, must be >= 0")
        if samples < 1:
            raise EnvelopeError(f"it has {samples} samples, must be >= 1")
        by_class = read_counts(values, samples + held_out)
        member = self.members[client]
        if member.online and member.node != node:
            raise EnvelopeError(f"client {client} is there already")
        if not member.online or member.since != since:
            self._replace_process(member, node, since, samples)
            member.held_out, member.by_class = held_out, by_class
        if self.epoch and envelope.parts:
            self._introduced[client] = (read_number(values, "epoch", int), envelope.parts[0])

    def _replace_process(self, member: Member, node: int, since: str, samples: int) -> None:
        if member.message:
            # Another process: what its former self was asked died with it.
            self._mailbox.forget(member.message)
        member.message, member.asked = "", ""
        member.node, member.since, member.online, member.num_samples = node, since, True, samples
        member.overdue, member.last_seen, member.barred = False, time.time(), ""
        self._say(f"client {member.client} joined with {samples} samples")
