"""A client that needs the whole state starts from the same weights as all others."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from prunefl import wire
from prunefl.engines.simulator import Simulator
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import ServerState, start, whole_order
from tasks import small_config, small_federation, small_setup


def test_a_whole_state_holds_what_the_other_orders_hold_though_it_is_quantised(tmp_path: Path) -> None:
    federation = small_federation()
    config = small_config(
        run={"method": "erk", "rounds": 3}, pruning={"density": 0.5}, wire={"precision": "int8"}
    )
    setup = small_setup(federation, config)
    template = setup.network.template
    compared, shorter = [], []

    class Watched(Simulator):
        def carry(self, state: ServerState, orders: Mapping[int, Order]) -> Iterator[Reply]:
            whole = whole_order(setup, state, orders[0])
            one, other = (wire.unpack(order.model, template, state.past) for order in (whole, orders[0]))
            compared.extend(np.array_equal(one.values[name], other.values[name]) for name in one.values)
            shorter.append(len(orders[0].model) < len(whole.model))
            return super().carry(state, orders)

    with Watched(setup, federation.clients, tmp_path) as engine:
        assert len(list(run_rounds(setup, start(setup), engine))) == 3
    assert len(compared) == 3 * len(template.names)
    assert all(compared)
    # from the second round on clients hold the masks
    assert shorter == [False, True, True]
