"""What the server learns of its devices from the seconds that clients report (time.refit)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prunefl.core.masks import live_counts
from prunefl.core.refit import Evidence, fitted, observe
from prunefl.core.time_model import TimeModel, fleet_time
from prunefl.devices import device_time
from prunefl.rounds.messages import Order
from prunefl.rounds.updates import Collected

if TYPE_CHECKING:
    from prunefl.rounds.server import ServerState, Setup


def after_round(
    setup: "Setup", state: "ServerState", orders: Mapping[int, Order], got: Collected
) -> Mapping[int, Evidence]:
    """Return the evidence with this round's reports: compute as measured, messages as the link takes them."""
    config = setup.config
    if not config.time.refit or not state.pruned:
        return state.evidence
    evidence, kinds, live = dict(state.evidence), _kinds(setup), live_counts(state.masks)
    for reply in got.replies:
        device, order = setup.devices[reply.client], orders[reply.client]
        # T speaks of ordinary rounds: where few collect the importance, those that do say nothing of it
        if reply.seconds <= 0 or order.ask.collect != (config.importance.window == "all"):
            continue
        link = device.link.download_seconds(len(order.model))
        link += sum(device.link.upload_seconds(size) for size in got.sent[reply.client])
        kind = kinds[id(device)]
        seconds = reply.seconds + link + device.overhead
        evidence[kind] = observe(evidence.get(kind, Evidence()), device_time(device, config), live, seconds)
    return evidence


def time_model(setup: "Setup", state: "ServerState") -> TimeModel:
    """Return T of the fleet, corrected by what was seen."""
    if not state.evidence:
        return setup.time_model
    kinds = _kinds(setup).values()
    profiles = {kind: device_time(setup.devices[kind], setup.config) for kind in kinds}
    corrected = [fitted(state.evidence.get(kind, Evidence()), profile) for kind, profile in profiles.items()]
    return fleet_time(corrected, setup.layer_sizes)


def _kinds(setup: "Setup") -> dict[int, int]:
    """Return the first client of each kind of device, by the device's identity."""
    kinds: dict[int, int] = {}
    for client, device in enumerate(setup.devices):
        kinds.setdefault(id(device), client)
    return kinds
