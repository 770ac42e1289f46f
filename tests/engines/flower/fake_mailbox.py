"""A mailbox that we can make late, lose and lie, and an engine on it."""

from dataclasses import dataclass, field, replace

from prunefl.engines.flower.codec import encode_reply
from prunefl.engines.flower.engine import FlowerEngine, Terms
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.mailbox import Answer
from prunefl.engines.flower.membership import Membership
from prunefl.methods import Work
from prunefl.rounds.messages import Order, Reply

GOOD, SILENT, GARBAGE, NAN, STATE_WANTED = "good", "silent", "garbage", "nan", "state_wanted"
ERROR, RUDE, LEAVES = "error", "rude", "leaves"
WORKING, STUCK, BOASTS = "working", "stuck", "boasts"
"""Answers of who prunes first: a pass more each time, the same pass for ever, more passes than there are."""

PASSES = 40


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@dataclass
class FakeMailbox:
    """Nodes 10, 11, ... that behave as told; an answer comes `delay` seconds after its envelope."""

    clock: Clock
    manners: dict[int, str]
    since: dict[int, str]
    delay: dict[int, float] = field(default_factory=dict)
    sent: list[tuple[int, Envelope]] = field(default_factory=list)
    due: list[tuple[float, Answer]] = field(default_factory=list)
    lives: list[float] = field(default_factory=list)
    held_out: int = 0
    passes: int = 0

    def list_online(self):
        return dict(self.since)

    def send(self, envelopes, seconds, group):
        names = {}
        for node, sealed in envelopes.items():
            envelope = unseal(sealed)
            names[node] = f"m{len(self.sent)}"
            self.sent.append((node, envelope))
            self.lives.append(seconds)
            answer = self.answer(node, envelope)
            if answer is not None:
                self.due.append((self.clock.now + self.delay.get(node, 0.1), Answer(names[node], *answer)))
        return names

    def answer(self, node, envelope):
        client = node - 10
        if envelope.kind == "hello":
            joined = {"client": client, "num_samples": 5 + client, "held_out": self.held_out}
            return (seal(Envelope("joined", joined)),)
        if envelope.kind in ("end", "refused"):
            return (seal(envelope),)
        manner = self.manners[node]
        if manner in (WORKING, STUCK, BOASTS):
            self.passes = {WORKING: self.passes + 1, STUCK: 1, BOASTS: PASSES + 1}[manner]
            if manner != WORKING or self.passes < PASSES:
                return (seal(Envelope("working", {"passes": self.passes})),)
            return (seal(encode_reply(Reply(client, 0, 5, 0.5, b"model"))),)
        if manner == STATE_WANTED and envelope.values["config"]:
            manner = GOOD
        reply = Reply(client, envelope.values["round"], 5, 0.5, b"model" + envelope.parts[0])
        envelopes = {
            GOOD: (seal(encode_reply(reply)),),
            GARBAGE: (b"garbage",),
            NAN: (seal(encode_reply(Reply(client, reply.round, 5, float("nan"), b"model"))),),
            STATE_WANTED: (seal(Envelope("state_wanted")),),
            ERROR: (b"", "the ClientApp crashed"),
            LEAVES: (seal(Envelope("error", {"what": "other data", "client": client, "leaves": True})),),
            RUDE: (seal(Envelope("error", {"what": "\x1b[2J\nprunefl: round 99 " + "x" * 9999})),),
        }
        return envelopes.get(manner)

    def fetch(self):
        ready = [answer for when, answer in self.due if when <= self.clock.now]
        self.due = [(when, answer) for when, answer in self.due if when > self.clock.now]
        return ready

    def wait(self, seconds):
        self.clock.sleep(seconds)

    def forget(self, name):
        self.due = [(when, answer) for when, answer in self.due if answer.message != name]

    def orders_to(self, node):
        return [envelope for number, envelope in self.sent if number == node and envelope.kind == "order"]


def federation(clock, *manners, quorum=0.5, deadline=10.0, initial_deadline=86400.0, min_clients=0, only=()):
    nodes = range(10, 10 + len(manners))
    mailbox = FakeMailbox(clock, dict(zip(nodes, manners, strict=True)), dict.fromkeys(nodes, "monday"))
    words = []
    keys = {node: node - 10 for node in nodes}
    hello = Envelope("hello")
    membership = Membership(mailbox, len(manners), keys, hello, deadline, words.append, only)
    terms = Terms(
        quorum, deadline, initial_deadline, "run", "config", min_clients=min_clients, initial_passes=PASSES
    )
    engine = FlowerEngine(
        mailbox,
        membership,
        terms,
        lambda state, order: replace(order, model=b"!"),
        words.append,
        lambda: None,
    )
    return engine, mailbox, membership, words


def orders(count, number=1):
    return {client: Order(number, 0.1, b"", Work()) for client in range(count)}


def carried(engine, count, number=1):
    return sorted(reply.client for reply in engine.carry(None, orders(count, number)))
