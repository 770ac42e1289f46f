"""Who is there: nodes are greeted, say which client they are, and are then known by it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prunefl.engines.flower.letters import LetterError, one_line, unseal
from prunefl.engines.flower.orders import number, text
from prunefl.engines.flower.post import Answer, Post


@dataclass
class Member:
    """What the server knows of one client.

    Attributes:
        node: Flower's number of its node, 0 before it first came.
        since: when that node's process started; another time means another process.
        there: whether it is connected now.
        letter: the message it has yet to answer, "" if none; `order` is the round it belongs to.
        overdue: it let a deadline pass and has not been heard of since: nobody waits for it.
        refusals: how many of its updates were left out; `trouble` is why the last was.
    """

    client: int
    node: int = 0
    since: str = ""
    there: bool = False
    num_samples: int = 0
    letter: str = ""
    order: int = -1
    overdue: bool = False
    seen: float = 0.0
    refusals: int = 0
    trouble: str = ""


class Roll:
    """The clients by number, kept up to date.

    Args:
        keys: node -> client, for nodes with registered keys; empty where nodes are believed (--insecure).
        hello: the letter that greets a node; its answer says which client it is and how many samples it has.
        patience: seconds after which a node that did not answer is greeted again.
    """

    def __init__(
        self,
        post: Post,
        clients: int,
        keys: Mapping[int, int],
        hello: bytes,
        patience: float,
        say: Callable[[str], None],
    ) -> None:
        self.members = {client: Member(client) for client in range(clients)}
        self._post, self._keys, self._hello = post, keys, hello
        self._patience, self._say = patience, say
        self._greeted: dict[int, tuple[str, float]] = {}
        self._hellos: dict[str, tuple[int, str]] = {}

    def look(self) -> None:
        """See who is there and greet who is new."""
        online = self._post.online()
        for member in self.members.values():
            member.there = online.get(member.node) == member.since and bool(member.node)
        known = {member.node for member in self.members.values() if member.there}
        now = time.monotonic()
        new = {}
        for node, since in online.items():
            before, when = self._greeted.get(node, ("?", 0.0))
            if node not in known and (before != since or now - when > self._patience):
                new[node] = self._hello
                self._greeted[node] = (since, now)
        sent = self._post.send(new, self._patience, "hello")
        self._hellos |= {name: (node, online[node]) for node, name in sent.items()}

    def coming(self, member: Member) -> bool:
        """Return whether this client has been greeted and not answered yet."""
        nodes = {node for node, _ in self._hellos.values()}
        return member.node in nodes or any(self._keys.get(node) == member.client for node in nodes)

    def take(self, answer: Answer) -> bool:
        """Enter the answer to a greeting; return False if it is something else."""
        if answer.message not in self._hellos:
            return False
        node, since = self._hellos.pop(answer.message)
        try:
            self._enter(node, since, answer)
        except LetterError as error:
            name = self._keys.get(node)
            self._say(f"{'a node' if name is None else f'client {name}'} cannot take part: {error}")
        return True

    def _enter(self, node: int, since: str, answer: Answer) -> None:
        if answer.trouble:
            raise LetterError(answer.trouble)
        letter = unseal(answer.content)
        if letter.kind == "trouble":
            raise LetterError(one_line(text(letter.values, "what")))
        client = number(letter.values, "client", int)
        samples = number(letter.values, "num_samples", int)
        if self._keys and self._keys.get(node) != client:
            raise LetterError(
                f"it says --partition {client}, but its key is that of client {self._keys.get(node)}"
            )
        if client not in self.members:
            raise LetterError(f"it says --partition {client}, must be < data.clients={len(self.members)}")
        if samples < 1:
            raise LetterError(f"it has {samples} samples, must be >= 1")
        member = self.members[client]
        if member.there and member.node != node:
            raise LetterError(f"client {client} is there already")
        self._welcome(member, node, since, samples)

    def _welcome(self, member: Member, node: int, since: str, samples: int) -> None:
        if member.there and (member.node, member.since) == (node, since):
            return
        if member.letter:
            # Another process: what its former self was asked died with it.
            self._post.forget(member.letter)
        member.letter, member.order = "", -1
        member.node, member.since, member.there, member.num_samples = node, since, True, samples
        member.overdue, member.seen = False, time.time()
        self._say(f"client {member.client} joined with {samples} samples")
