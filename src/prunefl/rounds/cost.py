"""What a round is charged (docs/method.md, the clock): every step computed, every byte sent, in every method.

Bytes are `len(packed)`, never an estimate. A round lasts as long as its slowest participant, and the split
that is kept is that participant's, so that its parts add up to the round.
"""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prunefl.core.masks import Counts
from prunefl.core.randomness import stream
from prunefl.devices import Device
from prunefl.local.batches import with_steps
from prunefl.methods import Method, Steps
from prunefl.rounds.answers import check_cost
from prunefl.rounds.collected import Collected
from prunefl.rounds.messages import EvaluationWork, Order
from prunefl.rounds.scores import Scored

if TYPE_CHECKING:
    from prunefl.rounds.server import ServerState, Setup


@dataclass(frozen=True)
class Seconds:
    """Seconds of a participant's round, or of a whole round, by what they were spent on."""

    compute: float = 0.0
    download: float = 0.0
    upload: float = 0.0
    overhead: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.compute + self.download + self.upload + self.overhead


@dataclass(frozen=True)
class Charge:
    """Cost of one round: seconds of its slowest participant, bytes of all, FLOPs of the mean participant."""

    seconds: Seconds
    bytes_up: int
    bytes_down: int
    flops: float


@dataclass(frozen=True)
class Totals:
    """Running sums over a run, initial pruning included: its FLOPs are those of the client that prunes first."""

    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    flops: float = 0.0

    def plus(self, charge: Charge) -> "Totals":
        """Return the totals with one more charge."""
        return Totals(
            self.seconds + charge.seconds.total,
            self.bytes_up + charge.bytes_up,
            self.bytes_down + charge.bytes_down,
            self.flops + charge.flops,
        )


def charge_round(
    setup: "Setup", state: "ServerState", orders: Mapping[int, Order], collected: Collected
) -> Charge:
    """Return what the round cost; each participant is charged on its own device, the slowest one counts."""
    live = state.sparse.masks.counts
    spent = {
        client: check_cost(setup.method, _method_of(setup, client).cost(orders[client].work, live, numbers))
        for client, numbers in collected.participants.items()
    }
    return _charge(setup, orders, spent, collected.sent, collected.down)


def _method_of(setup: "Setup", client: int) -> Method:
    """Return the method as it costs this client: with epochs, steps depend on its samples."""
    if not setup.config.training.local_epochs:
        return setup.method
    own = copy.copy(setup.method)
    object.__setattr__(own, "config", with_steps(setup.config, setup.num_samples[client]))
    return own


def charge_evaluation(
    setup: "Setup", state: "ServerState", orders: Mapping[int, Order], collected: Scored
) -> Charge:
    """Return what an evaluation at the clients cost: the model down, a forward pass, a few numbers up."""
    samples = {
        client: (2 if client in collected.personal else 1) * score.samples
        for client, score in collected.scores.items()
    }
    return charge_scores(setup, state, orders, samples, collected.sent, {})


def charge_scores(
    setup: "Setup",
    state: "ServerState",
    orders: Mapping[int, Order],
    samples: Mapping[int, int],
    sent: Mapping[int, Sequence[int]],
    down: Mapping[int, Sequence[int]],
) -> Charge:
    """Return what it costs that each client passes so many samples forward, and what its order asks for beside."""
    live, batch = state.sparse.masks.counts, setup.config.training.batch_size
    work = next(iter(orders.values())).work
    asked = work.personal_steps if isinstance(work, EvaluationWork) else 0
    # forward is a third of a step, and a step is one of a whole mini-batch
    spent = {client: [Steps(count / batch / 3 + asked, live)] for client, count in samples.items()}
    return _charge(setup, orders, spent, sent, down)


def _charge(
    setup: "Setup",
    orders: Mapping[int, Order],
    spent: Mapping[int, Sequence[Steps]],
    sent: Mapping[int, Sequence[int]],
    down: Mapping[int, Sequence[int]],
) -> Charge:
    flops = [_count_flops(setup, steps) for steps in spent.values()]
    # one message to each, its order, unless more is told
    down = down or {client: [len(order.model)] for client, order in orders.items()}
    return Charge(
        seconds=find_slowest(
            _participant(setup, orders[client], client, steps, down[client], sent[client])
            for client, steps in spent.items()
        ),
        bytes_up=sum(sum(sizes) for sizes in sent.values()),
        bytes_down=sum(sum(sizes) for sizes in down.values()),
        # who alone prunes before the first round is the mean participant of it: nobody shares its work
        flops=sum(flops) / max(1, len(flops)),
    )


def _participant(
    setup: "Setup",
    order: Order,
    client: int,
    work: Sequence[Steps],
    received: Sequence[int],
    sent: Sequence[int],
) -> Seconds:
    device, total = setup.devices[client], sum(setup.network.full_masks.sizes.values())
    compute = sum(steps.count * _step_seconds(device, steps, total) for steps in work)
    jitter = draw_jitter(device, setup.config.run.seed, order.round, client)
    return participant_seconds(device, compute, received, sent, jitter)


def _step_seconds(device: Device, steps: Steps, total: int) -> float:
    seconds = device.step_seconds(steps.live, steps.full_gradient)
    if not steps.extra_share:
        return seconds
    return seconds + steps.extra_share * sum(steps.live.values()) / total * device.dense_step_seconds()


def _count_flops(setup: "Setup", work: Sequence[Steps]) -> float:
    batch, network = setup.config.training.batch_size, setup.network
    positions = {**network.positions, **network.whole_positions}
    total = {**network.full_masks.sizes, **network.whole_sizes}
    return sum(
        steps.count
        * (
            sum(step_flops(positions, {**total, **steps.live}, total, batch, steps.full_gradient).values())
            + steps.extra_flops
        )
        for steps in work
    )


def step_flops(
    positions: Mapping[str, int], live: Counts, total: Counts, batch: int, full_weight_gradient: bool
) -> dict[str, int]:
    """Return the FLOPs of one training step by layer, as the paper counts them (its appendix on FLOPs).

    Two per multiply-add: 2·n_in·n_out·batch·d forward, the same for the gradient of the input, and for the
    gradient of the weights d where it is computed at live positions only, 1 where it is full.

    Args:
        positions: of each layer, see `Network`.
        live: live weights of each layer.
        total: all weights of each layer, live or not.
        full_weight_gradient: whether the weight gradient is computed at pruned positions too.
    """
    return {
        name: 2 * batch * where * (2 * live[name] + (total[name] if full_weight_gradient else live[name]))
        for name, where in positions.items()
    }


def participant_seconds(
    device: Device, compute: float, downloads: Iterable[int], uploads: Iterable[int], jitter: float = 1.0
) -> Seconds:
    """Return what a round takes on one device.

    Args:
        compute: seconds of its steps, from `Device.step_seconds`.
        downloads, uploads: bytes of each message from and to the server.
        jitter: from `draw_jitter`.
    """
    return Seconds(
        compute * jitter,
        sum(device.link.download_seconds(size) for size in downloads),
        sum(device.link.upload_seconds(size) for size in uploads),
        device.overhead,
    )


def draw_jitter(device: Device, seed: int, round: int, client: int) -> float:
    """Return by how much this client is slower or faster in this round; the same whoever else takes part."""
    if device.jitter == 0:
        return 1.0
    return math.exp(device.jitter * float(stream(seed, "jitter", round, client).normal(1)[0]))


def find_slowest(participants: Iterable[Seconds]) -> Seconds:
    """Return the seconds of a round: those of the participant that everybody waits for."""
    return max(participants, key=lambda seconds: seconds.total, default=Seconds())
