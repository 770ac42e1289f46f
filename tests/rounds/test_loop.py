"""A client that needs the whole state starts from the same weights as all others."""

import torch

from prunefl import data, wire
from prunefl.data import Federation
from prunefl.engines.simulator import Simulator
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.messages import Order, Reply
from prunefl.rounds.server import start, whole_order
from prunefl.runs.api import prepare
from tasks import small_clients, small_config, small_data, small_model


def test_a_whole_state_holds_what_the_other_orders_hold_though_it_is_quantised(tmp_path):
    federation = Federation(data.wrap_all(small_clients()), data.wrap(small_data(40, 9)), 4, (1, 8, 8), "own")
    config = small_config(run={"method": "conventional", "rounds": 3}, wire={"precision": "int8"})
    setup = prepare(small_model(), federation, config)
    differences = []

    class Watched(Simulator):
        def carry(self, state, orders: dict[int, Order]) -> list[Reply]:
            whole = whole_order(setup, state, orders[0])
            one, other = (
                wire.unpack(order.model, setup.template, state.past)[0] for order in (whole, orders[0])
            )
            differences.extend(float((one[name] - other[name]).abs().max()) for name in one)
            return list(super().carry(state, orders))

    with Watched(setup, federation.clients, tmp_path) as engine:
        assert len(list(run_rounds(setup, start(setup), engine))) == 3
    assert len(differences) > 3
    assert max(differences) == 0
    assert torch.isfinite(torch.tensor(differences)).all()
