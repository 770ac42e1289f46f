"""The clock gives the paper's figures, waits for the slowest, and charges each layer the cheaper way."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from prunefl import devices
from prunefl.core.masks import Counts
from prunefl.core.memory import Memory
from prunefl.devices import Device, LayerCost, Link, Shape, Ways
from prunefl.local.torch_backend.network import network_of
from prunefl.methods import Method, Received, Steps, Work
from prunefl.methods.base import Numbers
from prunefl.rounds.collected import Collected
from prunefl.rounds.cost import (
    Charge,
    Seconds,
    Totals,
    charge_round,
    draw_jitter,
    find_slowest,
    participant_seconds,
    step_flops,
)
from prunefl.rounds.messages import Order
from prunefl.rounds.server import ServerState
from tasks import (
    CLASSES,
    INPUT_SHAPE,
    small_config,
    small_federation,
    small_model,
    small_network,
    small_setup,
)

CONV2 = Shape(
    {"0.weight": 800, "3.weight": 51_200, "7.weight": 6_422_528, "9.weight": 126_976},
    {"0.weight": 784, "3.weight": 196, "7.weight": 1, "9.weight": 1},
    2206,
)


def pi() -> Device:
    return devices.bind(devices.load("raspberry-pi-4"), CONV2, 20)


def a_round(device: Device, live: Mapping[str, int], num_bytes: int) -> Seconds:
    """Return a round of five steps with one message of this size each way."""
    return participant_seconds(device, 5 * device.step_seconds(live), [num_bytes], [num_bytes])


def test_a_full_round_on_the_raspberry_pi_is_the_papers_47_1_seconds() -> None:
    num_bytes = 4 * (sum(CONV2.weights.values()) + CONV2.unpruned)
    spent = a_round(pi(), CONV2.weights, num_bytes)
    assert round(spent.compute, 2) == 11.24
    assert round(spent.download + spent.upload, 2) == 35.88
    assert round(spent.total, 1) == 47.1


def test_a_pruned_round_on_the_raspberry_pi_is_what_the_coefficients_say() -> None:
    live = {name: int(0.134 * count) for name, count in CONV2.weights.items()}
    num_bytes = 4 * sum(live.values())
    spent = a_round(pi(), live, num_bytes)
    slopes = [0.0, 7.09885e-6, 1.927325e-7, 1.782308e-7]
    compute = 5 * (1.24928 + sum(t * n for t, n in zip(slopes, live.values(), strict=True)))
    assert spent.compute == pytest.approx(compute, rel=1e-12)
    assert spent.download + spent.upload == pytest.approx(5.5616e-6 * sum(live.values()), rel=1e-6)
    assert spent.total == pytest.approx(12.25, abs=0.01)


def test_time_model_and_clock_agree_on_a_pruned_round() -> None:
    live = {name: count // 3 for name, count in CONV2.weights.items()}
    num_bytes = 4 * (sum(live.values()) + CONV2.unpruned)
    spent = a_round(pi(), live, num_bytes)
    assert pi().round_time(5).seconds(live) == pytest.approx(spent.total, rel=1e-12)


AT_ONCE = Link()


def simple(name: str, dense: float, slope: float, link: Link = AT_ONCE, jitter: float = 0.0) -> Device:
    ways = Ways(dense, 1.0, slope)
    layers = {"a": LayerCost(100, ways, Ways(dense + 1, 3.0, slope))}
    return Device(name, 2.0, layers, link, overhead=0.5, jitter=jitter)


def test_each_layer_is_charged_the_cheaper_way() -> None:
    device = simple("d", dense=6.0, slope=0.1)
    assert device.step_seconds({"a": 10}) == 2 + 1 + 1
    assert device.step_seconds({"a": 100}) == 2 + 6
    assert device.step_seconds({"a": 10}, full_gradient=True) == 2 + 3 + 1
    assert device.step_seconds({"a": 100}, full_gradient=True) == 2 + 7


def test_a_round_waits_for_its_slowest_and_keeps_its_split() -> None:
    quick = participant_seconds(simple("quick", 6.0, 0.1), 12.0, [1000], [1000])
    far = participant_seconds(
        simple("far", 6.0, 0.1, Link(10.0, 20.0, 0.25)), 12.0, [100], [40, 10], jitter=1.5
    )
    assert find_slowest([quick, far, quick]) == far
    assert far == Seconds(compute=18.0, download=5.25, upload=5.5, overhead=0.5)
    assert far.total == 29.25
    assert find_slowest([]).total == 0.0


def test_jitter_belongs_to_client_and_round_and_is_repeatable() -> None:
    device = simple("d", 6.0, 0.1, jitter=0.2)
    factors = {(r, n): draw_jitter(device, 1, r, n) for r in range(50) for n in range(10)}
    assert len(set(factors.values())) == 500
    assert draw_jitter(device, 1, 3, 4) == factors[3, 4]
    assert draw_jitter(simple("d", 6.0, 0.1), 1, 3, 4) == 1.0
    assert 0.9 < sum(factors.values()) / 500 < 1.1


def test_more_bytes_never_take_less_time() -> None:
    link = pi().link
    sizes = range(0, 60_000_000, 250_000)
    seconds = [link.upload_seconds(size) for size in sizes]
    assert seconds == sorted(seconds)


class Charged(Method):
    """Charges what a test says; what it charges is not what it does."""

    def cost(self, work: Work, live: Counts, numbers: Numbers) -> Sequence[Steps]:
        return [Steps(2, live), Steps(1, live, full_gradient=True, extra_share=0.5, extra_flops=7.0)]


def test_a_round_is_charged_every_step_and_every_byte_of_the_slowest() -> None:
    """Two of four clients; client 3 sits behind a link of 100 bytes a second, and sends a statistic, too."""
    network = small_network()
    setup = small_setup(small_federation(), small_config(), network)
    near = setup.devices[0]
    far = replace(near, link=Link(100.0, 200.0, 0.25))
    setup = replace(setup, devices=[near, near, near, far], method=Charged(setup.config))
    state = ServerState(network.first, 0, Memory())
    orders = {client: Order(1, 0.1, b"x" * 300, Work()) for client in (1, 3)}
    updates = [Received(client, 0.5, network.first, {}) for client in (1, 3)]
    collected = Collected(
        updates,
        None,
        0.0,
        {1: 1.0, 3: 1.0},
        {1: (40,), 3: (40, 10)},
        {},
        participants={u.client: u.numbers for u in updates},
    )
    charge = charge_round(setup, state, orders, collected)
    live = network.full_masks.counts
    step, full = far.step_seconds(live), far.step_seconds(live, full_gradient=True)
    assert charge.seconds.compute == pytest.approx(2 * step + full + 0.5 * far.dense_step_seconds())
    assert charge.seconds.download == pytest.approx(0.25 + 300 / 200)
    assert charge.seconds.upload == pytest.approx(2 * 0.25 + 50 / 100)
    assert (charge.bytes_down, charge.bytes_up) == (600, 90)
    # forward, input and weight gradient of 20 samples: conv at 64 positions, two linear layers
    once = 2 * 20 * (64 * 72 + 4096 + 128) * 3
    assert charge.flops == 3 * once + 7


def test_a_layer_that_is_left_whole_is_computed_all_the_same() -> None:
    """A round of the full model takes as long and as many operations whatever may be pruned of it."""
    federation, charges = small_federation(), []
    for exclude in ((), ("0.weight", "4.weight")):
        network = network_of(small_model(), INPUT_SHAPE, CLASSES, exclude=exclude)
        setup = small_setup(federation, small_config(), network)
        setup = replace(setup, method=Method(setup.config))
        state, update = ServerState(network.first, 0, Memory()), Received(0, 0.5, network.first, {})
        collected = Collected([update], None, 0.0, {0: 1.0}, {0: (40,)}, {}, participants={0: update.numbers})
        charges.append(charge_round(setup, state, {0: Order(1, 0.1, b"x", Work())}, collected))
    assert charges[1].flops == charges[0].flops > 0
    assert charges[1].seconds.total == pytest.approx(charges[0].seconds.total)


def test_what_one_client_computes_before_the_first_round_is_its_own() -> None:
    """Nobody shares it: it counts as much as the same steps in a round in which this client were alone."""
    network = small_network()
    setup = small_setup(small_federation(), small_config(), network)
    setup = replace(setup, method=Charged(setup.config))
    state, update = ServerState(network.first, -1, Memory()), Received(0, 1.0, network.first, {})
    collected = Collected([update], None, 0.0, {0: 1.0}, {0: (40,)}, {}, participants={0: update.numbers})
    flops = [
        charge_round(setup, state, {0: Order(round, 0.1, b"", Work())}, collected).flops for round in (0, 1)
    ]
    assert flops[1] == flops[0] > 0


def test_totals_add_up() -> None:
    charge = Charge(Seconds(1.0, 2.0, 3.0, 4.0), 5, 6, 7.0)
    assert Totals().plus(charge).plus(charge) == Totals(20.0, 10, 12, 14.0)


def test_flops_are_counted_as_the_paper_counts_them() -> None:
    where = {"0.weight": 784, "3.weight": 1}
    live, total = {"0.weight": 400, "3.weight": 6272}, {"0.weight": 800, "3.weight": 62720}
    ordinary = step_flops(where, live, total, batch=20, full_weight_gradient=False)
    assert ordinary == {"0.weight": 2 * 20 * 784 * 400 * 3, "3.weight": 2 * 20 * 6272 * 3}
    full = step_flops(where, live, total, batch=20, full_weight_gradient=True)
    # the paper: 2·N·n_in·n_out·(1 + 2d)
    assert full["3.weight"] == 2 * 20 * 62720 * (1 + 2 * 0.1)
