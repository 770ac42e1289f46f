"""One step of a secure sum: an order to each client, its answer, and the bytes of both."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prunefl.privacy.errors import Refused
from prunefl.privacy.messages import read_stamped
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState
from prunefl.rounds.updates import NO_REPLY

Carry = Callable[[ServerState, Mapping[int, Order]], Iterable[Reply]]


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
