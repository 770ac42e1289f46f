"""The stage before round 1 on the server's own samples: nobody else's model is seen for it (privacy.initial)."""

from dataclasses import replace

from prunefl.config.privacy import OPEN
from prunefl.data import Samples
from prunefl.local import make_backend
from prunefl.methods import build_method
from prunefl.rounds.client import Client, ClientState, handle
from prunefl.rounds.cost import Seconds
from prunefl.rounds.server import Outcome, ServerState, Setup, begin_round, finish_round
from prunefl.system.errors import PruneFLError

THE_SERVER = -1
"""In place of a client's number in the record of the stage."""


def starts_at_server(setup: Setup, state: ServerState) -> bool:
    """Return whether the stage before round 1 is still to come, and the server's."""
    return state.round < 0 and setup.config.privacy.initial == "server"


def run_first_stage(setup: Setup, state: ServerState, samples: Samples | None) -> tuple[ServerState, Outcome]:
    """Return the state and the outcome after it: what one client would have done, on samples that are nobody's secret.

    The server computes like its fastest client, and sends nothing.
    """
    if samples is None or len(samples) < setup.config.initial.samples:
        held = 0 if samples is None else len(samples)
        raise PruneFLError(
            f"initial.samples={setup.config.initial.samples}, must be <= {held}, what privacy.public="
            f"{setup.config.privacy.public!r} has"
        )
    # nothing has to be hidden here: an ordinary first stage, of an ordinary run
    config = replace(setup.config, privacy=OPEN)
    openly = replace(setup, config=config, method=build_method(config))
    clients = setup.clients
    number = min(clients.members, key=lambda one: (clients.step_seconds[one], one))
    client = Client(
        number,
        samples,
        setup.network,
        make_backend(setup.network, config, setup.measured),
        openly.method,
        config,
    )
    begun, orders = begin_round(openly, state, [number])
    reply, _ = handle(orders[number], client, ClientState())
    after, outcome = finish_round(openly, begun, orders, [reply])
    seconds = outcome.charge.seconds
    here = Seconds(compute=seconds.compute, overhead=seconds.overhead)
    charge = replace(outcome.charge, seconds=here, bytes_up=0, bytes_down=0)
    totals = state.totals.plus(charge)
    told = replace(outcome, charge=charge, notes={**outcome.notes, "client": THE_SERVER})
    return replace(after, known=state.known, totals=totals), told
