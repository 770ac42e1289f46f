"""What the server learns of its devices from the seconds that clients report (time.refit)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prunefl.core.refit import Evidence, fitted, observe
from prunefl.core.time_model import TimeModel, fleet_time
from prunefl.devices import device_time
from prunefl.rounds.collected import Collected
from prunefl.rounds.messages import Order

if TYPE_CHECKING:
    from prunefl.rounds.server import ServerState, Setup


def observe_round(
    setup: "Setup", state: "ServerState", orders: Mapping[int, Order], got: Collected
) -> Mapping[int, Evidence]:
    """Return the evidence with this round's reports: compute as measured, messages as the link takes them."""
    config = setup.config
    if not config.time.refit:
        return state.evidence
    evidence, kinds, live = dict(state.evidence), _kinds(setup), state.sparse.masks.counts
    # T speaks of ordinary rounds: where few compute full gradients, those that do say nothing of it
    usual = config.importance.window == "all"
    for client, numbers in got.participants.items():
        device, order, seconds = setup.devices[client], orders[client], got.seconds[client]
        work = setup.method.cost(order.work, live, numbers)
        if seconds <= 0 or order.round == 0 or [steps.full_gradient for steps in work] != [usual]:
            continue
        link = sum(device.link.download_seconds(size) for size in got.down.get(client, [len(order.model)]))
        link += sum(device.link.upload_seconds(size) for size in got.sent[client])
        kind, profile = kinds[id(device)], device_time(device, config)
        before = evidence.get(kind, Evidence())
        evidence[kind] = observe(before, profile, live, seconds + link + device.overhead)
    return evidence


def fleet_time_model(setup: "Setup", state: "ServerState") -> TimeModel:
    """Return T of the fleet, corrected by what was seen."""
    if not state.evidence:
        return setup.time_model
    kinds = _kinds(setup).values()
    profiles = {kind: device_time(setup.devices[kind], setup.config) for kind in kinds}
    corrected = [fitted(state.evidence.get(kind, Evidence()), profile) for kind, profile in profiles.items()]
    return fleet_time(corrected, setup.network.full_masks.sizes)


def _kinds(setup: "Setup") -> dict[int, int]:
    """Return the first client of each kind of device, by the device's identity."""
    kinds: dict[int, int] = {}
    for client in setup.members:
        kinds.setdefault(id(setup.devices[client]), client)
    return kinds
