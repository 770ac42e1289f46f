"""One step of a secure sum: an order to each client, its answer, and the bytes of both.

What can go together does, for each exchange costs a round a delay: who unmasks one sum shares keys for the next, and
makes a key for the epoch after.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prunefl.privacy.errors import Refused
from prunefl.privacy.messages import pack_parts, read_stamped, unpack_parts
from prunefl.rounds.messages import Order, Reply, SecureWork
from prunefl.rounds.server import ServerState
from prunefl.rounds.updates import NO_REPLY

Carry = Callable[[ServerState, Mapping[int, Order]], Iterable[Reply]]


@dataclass(frozen=True)
class Request:
    """What a client is asked for beside vectors; any of it may be missing.

    Attributes:
        verdict: of which sum it is to give shares, and who is left of it.
        plan: for which sum it is to share keys, with the neighbours' keys that it has not seen.
        epoch: for which it is to make a key ahead; 0: none.
    """

    verdict: bytes = b""
    plan: bytes = b""
    epoch: int = 0

    @property
    def work(self) -> str:
        """In a word."""
        return "unmask" if self.verdict else "share" if self.plan else "introduce"

    def order(self, round: int, serial: int, purpose: str) -> Order:
        """Return it as an order."""
        message = pack_parts(self.verdict, self.plan, b"%d" % self.epoch)
        return Order(round, 0.0, b"", SecureWork(step=self.work, purpose=purpose), serial, message)


def parse_request(message: bytes) -> Request:
    """Return what a client is asked for, or refuse what is not readable."""
    verdict, plan, epoch = unpack_parts(message, 3)
    if not epoch.isdigit() or len(epoch) > 18:
        raise Refused("an epoch that is no number")
    return Request(verdict, plan, int(epoch))


@dataclass(frozen=True)
class Given:
    """What a client gives: shares that unmask, shares for the next sum, its key of a later epoch."""

    shares: bytes = b""
    shared: bytes = b""
    introduction: bytes = b""

    def pack(self) -> bytes:
        """Return it as bytes."""
        return pack_parts(self.shares, self.shared, self.introduction)


def parse_given(answer: bytes) -> Given:
    """Return what a client gives; what is not readable is nothing."""
    try:
        return Given(*unpack_parts(answer, 3))
    except Refused:
        return Given()


@dataclass
class Traffic:
    """Bytes of every message of a sum, by client; `setup` of them have been for keys that later rounds use, too."""

    up: dict[int, list[int]] = field(default_factory=dict)
    down: dict[int, list[int]] = field(default_factory=dict)
    setup: int = 0
    exchanges: int = 0

    @property
    def num_bytes(self) -> int:
        """Of all messages."""
        return sum(sum(sizes) for way in (self.up, self.down) for sizes in way.values())


def carry_step(
    carry: Carry,
    state: ServerState,
    orders: Mapping[int, Order],
    traffic: Traffic,
    refused: dict[int, str],
    take: Callable[[bytes], bytes] = lambda answer: answer,
) -> tuple[dict[int, bytes], dict[int, float]]:
    """Return what each client answered to this step, and its seconds; who did not is among the refused.

    Args:
        take: what becomes of an answer as soon as it is there, so that a round of full models need not be kept.
    """
    answers, seconds = {}, {}
    traffic.exchanges += 1
    for client, order in orders.items():
        traffic.down.setdefault(client, []).append(len(order.model) + len(order.secure))
    for reply in carry(state, orders):
        if reply.client not in orders:
            continue
        traffic.up.setdefault(reply.client, []).append(len(reply.secure))
        try:
            answers[reply.client] = take(read_stamped(orders[reply.client].serial, reply.secure))
            seconds[reply.client] = reply.seconds
        except Refused as error:
            refused[reply.client] = str(error)
    refused |= {client: NO_REPLY for client in orders if client not in answers and client not in refused}
    return dict(sorted(answers.items())), seconds
