"""A round as the server's engine has it in hand: what was asked, what has come, and who does not get on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prunefl.rounds.messages import EvaluationWork, Order, Reply, SecureWork
from prunefl.rounds.server import ServerState


@dataclass
class Round:
    """What has been sent and has come in one round.

    Attributes:
        name: what its orders are for.
        started: when, by the monotonic clock; `look_at` is when to look again who is there, in seconds since.
        state_wanted: clients that asked for the whole state.
        asked: client -> how many messages it was sent.
        passes: client that prunes first -> passes that it says it has done, and when that last grew (`advanced`).
        given_up: clients whose initial pruning does not advance.
    """

    state: ServerState
    orders: Mapping[int, Order]
    name: str
    started: float
    look_at: float = 0.0
    replies: dict[int, Reply] = field(default_factory=dict)
    state_wanted: set[int] = field(default_factory=set)
    asked: dict[int, int] = field(default_factory=dict)
    passes: dict[int, int] = field(default_factory=dict)
    advanced: dict[int, float] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)

    @property
    def initial(self) -> bool:
        """Initial pruning is many rounds' work on one client, and there is no other to go on with."""
        return next(iter(self.orders.values())).round == 0

    def note_passes(self, client: int, passes: int, now: float) -> None:
        """Take note of how far a client says it is: only what is more than before is progress."""
        if passes > self.passes.get(client, 0):
            self.passes[client], self.advanced[client] = passes, now

    def give_up_stuck(self, now: float, patience: float) -> list[int]:
        """Return who has not done a pass more for so long, or has not come; nobody waits for them any more."""
        open_ones = self.orders.keys() - self.replies.keys() - self.given_up
        stuck = [
            client for client in sorted(open_ones) if now - self.advanced.get(client, self.started) > patience
        ]
        self.given_up |= set(stuck)
        return stuck


def name_exchange(orders: Mapping[int, Order]) -> str:
    """Return what these orders are for, in words: an answer to a round's order is none to its evaluation's."""
    order = next(iter(orders.values()))
    name = f"{'evaluation after ' if isinstance(order.work, EvaluationWork) else ''}round {order.round}"
    if not order.serial:
        return name
    # with its number: a round that is repeated must not take an answer of the attempt before
    step = f"{order.work.step} for {order.work.purpose}" if isinstance(order.work, SecureWork) else name
    return f"{step} (sum {order.serial})"
