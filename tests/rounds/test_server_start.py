"""Initial pruning at the server is what a client with the same samples would have done, and nothing is sent for it."""

from pathlib import Path

from prunefl.engines.simulator import Simulator
from prunefl.rounds.loop import run_rounds
from prunefl.rounds.server import start
from prunefl.rounds.server_start import run_first_stage, starts_at_server
from tasks import same_bits, small_config, small_federation, small_setup


def test_it_comes_to_the_bits_of_a_client_that_has_these_samples(tmp_path: Path) -> None:
    unbound = {"max_change": 0, "max_opposition": 0, "max_statistic": 0}
    first = {"samples": 40, "interval": 2, "max_passes": 8, "clients": 1, "client": 0}
    federation = small_federation()
    openly = small_setup(
        federation, small_config(run={"method": "prunefl", "rounds": 1}, initial=first, server=unbound)
    )
    with Simulator(openly, federation.clients, tmp_path) as engine:
        expected, told = next(iter(run_rounds(openly, start(openly), engine)))
    hidden = small_config(
        run={"method": "prunefl", "rounds": 1},
        initial=first,
        server=unbound,
        privacy={"secure": True, "initial": "server", "public": "some/where"},
    )
    setup = small_setup(federation, hidden)
    begun = start(setup)
    assert starts_at_server(setup, begun)
    found, outcome = run_first_stage(setup, begun, federation.clients[0])
    assert found.sparse.masks == expected.sparse.masks
    assert found.sparse.masks.density < 1
    assert same_bits(found.sparse.values, expected.sparse.values)
    assert (found.round, found.known) == (0, {})
    assert outcome.charge.seconds.compute == told.charge.seconds.compute
    assert (outcome.charge.bytes_up, outcome.charge.bytes_down) == (0, 0)
    assert found.totals.seconds == outcome.charge.seconds.total < expected.totals.seconds
    assert not starts_at_server(setup, found)
