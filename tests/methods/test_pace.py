"""The pace of a small model: fewer weights, larger steps from round 1 on (docs/method.md 16)."""

from typing import Any

import pytest

from prunefl import wire
from prunefl.config import Config
from prunefl.core.memory import Memory
from prunefl.core.time_model import LinearTime, to_json
from prunefl.methods.prunefl import PruneFirst
from prunefl.rounds.client import ClientState, handle
from prunefl.rounds.messages import Order
from prunefl.rounds.server import ServerState, begin_round
from tasks import (
    random_masks,
    small_client,
    small_config,
    small_federation,
    small_network,
    small_setup,
)


def rates_taken(config: Config, ordered: float, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Return the density and the rate of each pass of initial pruning."""
    client, taken = small_client(config), []
    steps = client.backend.steps

    def watch(batches: Any, rate: float, *others: Any) -> Any:
        taken.append((client.backend.state().masks.density, rate))
        return steps(batches, rate, *others)

    monkeypatch.setattr(client.backend, "steps", watch)
    per_weight = dict.fromkeys(client.network.template.layers, 1e-3)
    work = PruneFirst(own_masks=True, time_model=to_json(LinearTime(1.0, per_weight)))
    handle(Order(0, ordered, wire.pack(client.network.first), work), client, ClientState())
    return taken


@pytest.mark.parametrize("ordered", [0.1, 0.02])
def test_one_client_alone_keeps_to_the_rate_that_was_ordered(
    ordered: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small its model becomes: its steps are noisier than a mean. A method of one's own may order another."""
    config = small_config(training={"learning_rate": 0.1, "pace": 0.5}, initial={"warmup_passes": 0})
    taken = rates_taken(config, ordered, monkeypatch)
    assert taken[0][0] == 1.0 > taken[-1][0]
    assert {rate for _, rate in taken} == {ordered}


def test_initial_pruning_may_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three passes at a quarter, a half and three quarters of the rate, whatever is pruned meanwhile; then all."""
    config = small_config(initial={"warmup_passes": 3, "max_passes": 6})
    rates = [rate for _, rate in rates_taken(config, 0.2, monkeypatch)]
    assert rates == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.2, 0.2])


@pytest.mark.parametrize(("most", "rates"), [(1, [0.2]), (4, [0.1, 0.2, 0.2, 0.2])])
def test_by_default_initial_pruning_warms_up_for_a_third_of_its_passes(
    most: int, rates: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(initial={"max_passes": most})
    assert [rate for _, rate in rates_taken(config, 0.2, monkeypatch)] == pytest.approx(rates)


def test_the_server_orders_the_rate_of_the_model_that_it_sends() -> None:
    network = small_network()
    masks = random_masks(network, 0.2)
    training = {"learning_rate": 0.1, "pace": 0.5, "pace_rounds": 0}
    setup = small_setup(small_federation(), small_config(training=training))
    pruned = ServerState(network.first.remask(masks), 3, Memory())
    _, orders = begin_round(setup, pruned)
    assert {order.learning_rate for order in orders.values()} == {0.1 * masks.density**-0.5}
