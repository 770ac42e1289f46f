"""What a round is charged (SPEC, the time model): every step computed, every byte sent, in every method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prunefl.core.masks import live_counts
from prunefl.devices import Device, fastest
from prunefl.models.flops import step_flops
from prunefl.rounds.clock import Seconds, jitter_factor, participant_seconds, slowest
from prunefl.rounds.messages import InitialPlan, Order, Reply

if TYPE_CHECKING:
    from prunefl.rounds.server import ServerState, Setup


LASSO_SHARE = 17.65 / 11.24 - 1
"""What a group lasso over all channels adds to the full model's step: the paper's Conv-2 on a Raspberry Pi."""

LASSO_FLOPS = 8
"""Per live weight and step: two squared norms and their two gradients."""


@dataclass(frozen=True)
class Charge:
    """Cost of one round: seconds of its slowest participant, bytes of all, FLOPs of the mean participant."""

    seconds: Seconds
    bytes_up: int
    bytes_down: int
    flops: float


@dataclass(frozen=True)
class Totals:
    """Running sums over a run, initial pruning included."""

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


@dataclass(frozen=True)
class Stretch:
    """Some training steps of the same cost; a forward pass alone is a third of a step."""

    steps: float
    live: Mapping[str, int]
    full_gradient: bool
    lasso: bool = False


def initial_client(setup: "Setup", plan: InitialPlan) -> int:
    """Return who prunes first: the config's choice, or the fastest that has enough samples (SPEC 8)."""
    chosen = setup.config.initial.client
    if chosen >= 0:
        held = setup.num_samples[chosen]
        if held < plan.samples:
            raise ValueError(
                f"initial.samples={plan.samples}, must be <= {held}, what initial.client={chosen} has"
            )
        return chosen
    enough = [n for n, count in enumerate(setup.num_samples) if count >= plan.samples]
    if not enough:
        most = max(setup.num_samples)
        raise ValueError(f"initial.samples={plan.samples}, must be <= {most}, the most that a client has")
    return fastest(setup.devices, enough)


def of_round(
    setup: "Setup",
    state: "ServerState",
    orders: Mapping[int, Order],
    replies: Sequence[Reply],
    sent: Mapping[int, tuple[int, ...]],
) -> Charge:
    """Return what the round cost; each participant is charged on its own device, the slowest one counts."""
    live = live_counts(state.masks)
    stretches = {r.client: _stretches(setup, orders[r.client], r, live) for r in replies}
    spent = slowest(
        _seconds(setup, orders[r.client], r.client, stretches[r.client], sent[r.client]) for r in replies
    )
    # What one client computes before the first round is shared out over a cohort, as a round's work is.
    usual = setup.config.training.participants or len(setup.devices)
    cohort = len(replies) if state.pruned else usual
    return Charge(
        seconds=spent,
        bytes_up=sum(sum(sizes) for sizes in sent.values()),
        bytes_down=sum(len(order.model) for order in orders.values()),
        flops=sum(_flops(setup, stretches[reply.client]) for reply in replies) / cohort,
    )


def _stretches(setup: "Setup", order: Order, reply: Reply, live: Mapping[str, int]) -> list[Stretch]:
    """Return all that this client computed."""
    if reply.segments:
        ordinary = [Stretch(s.steps - s.full_steps, s.live, full_gradient=False) for s in reply.segments]
        return ordinary + [Stretch(s.full_steps, s.live, full_gradient=True) for s in reply.segments]
    steps, ask = setup.config.training.local_steps, order.ask
    done = [Stretch(steps, live, ask.collect or ask.dense_update, ask.group_lasso > 0)]
    if ask.report == "gradient":
        done.append(Stretch(steps, live, full_gradient=True))
    if ask.swap:
        done.append(Stretch(1, live, full_gradient=True))
    if ask.probe_density:
        done.append(Stretch(2 * steps / 3, live, full_gradient=False))
    return done


def _seconds(
    setup: "Setup", order: Order, client: int, stretches: Sequence[Stretch], sent: Sequence[int]
) -> Seconds:
    device, seed = setup.devices[client], setup.config.run.seed
    compute = sum(s.steps * _step_seconds(setup, device, s) for s in stretches)
    jitter = jitter_factor(device, seed, order.round, client)
    return participant_seconds(device, compute, [len(order.model)], sent, jitter)


def _step_seconds(setup: "Setup", device: Device, stretch: Stretch) -> float:
    seconds = device.step_seconds(stretch.live, stretch.full_gradient)
    if not stretch.lasso:
        return seconds
    density = sum(stretch.live.values()) / sum(setup.layer_sizes.values())
    return seconds + LASSO_SHARE * density * device.dense_step_seconds()


def _flops(setup: "Setup", stretches: Sequence[Stretch]) -> float:
    batch, total = setup.config.training.batch_size, setup.layer_sizes
    return sum(
        s.steps
        * (
            sum(step_flops(setup.positions, s.live, total, batch, s.full_gradient).values())
            + (LASSO_FLOPS * sum(s.live.values()) if s.lasso else 0)
        )
        for s in stretches
    )
