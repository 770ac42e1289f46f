"""How an outcome is written down: the fields of records.jsonl."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from prunefl import config as settings
from prunefl.config import Config
from prunefl.config.settings import flat
from prunefl.core.masks import density, live_counts
from prunefl.rounds.server import Outcome, ServerState, Setup
from prunefl.runs.records import Record, final_accuracy


def first_record(setup: Setup, state: ServerState, data: str, version: str) -> Record:
    """Return the record that says what run this is; `state` is the one before anything is trained."""
    parameters = sum(parameter.numel() for parameter in setup.model.parameters())
    layers = {name: setup.model.get_parameter(name).numel() for name in setup.names}
    return {
        "kind": "run",
        "version": version,
        "method": setup.config.run.method,
        "seed": setup.config.run.seed,
        "config_digest": _digest(setup.config),
        "model": setup.config.model.name,
        "data": data,
        "cut": setup.cut,
        "prunable": sum(layers.values()),
        "parameters": parameters,
        "layers": layers,
        "live": live_counts(state.masks),
        "clients": len(setup.devices),
        "devices": [device.name for device in setup.devices],
        "device_notes": {device.name: device.note for device in setup.devices if device.note},
    }


def _digest(config: Config) -> str:
    """Return a name for the settings that decide a run's numbers, but for how many rounds it has so far."""
    free = {*settings.free_settings("to resume"), "run.rounds"}
    kept = {key: value for key, value in flat(settings.as_dict(config)).items() if key not in free}
    return hashlib.blake2b(json.dumps(kept).encode(), digest_size=8).hexdigest()


def outcome_record(
    setup: Setup, state: ServerState, outcome: Outcome, wall: float, total_wall: float
) -> Record:
    """Return the record of initial pruning or of a round; `state` is the one after it."""
    charge = outcome.charge
    common = {
        "seconds": {**asdict(charge.seconds), "total": charge.seconds.total},
        "bytes_up": charge.bytes_up,
        "bytes_down": charge.bytes_down,
        "flops": charge.flops,
        "wall_seconds": wall,
        "density": density(state.masks),
        "live": live_counts(state.masks),
        "total": {**asdict(state.totals), "wall_seconds": total_wall},
    }
    if outcome.segments:
        segments = [asdict(segment) for segment in outcome.segments]
        return {"kind": "initial", "client": outcome.cohort[0], "segments": segments, **common}
    return {
        "kind": "round",
        "round": outcome.round,
        "loss": outcome.loss,
        "collected": outcome.collected,
        "reconfigured": outcome.reconfigured,
        "predicted_seconds": setup.time_model.seconds(live_counts(state.masks)),
        "clients": list(outcome.cohort),
        "refused": {str(client): reason for client, reason in outcome.refused.items()},
        **common,
    }


def without_repeats(record: Record, previous: Mapping[str, int] | None) -> Record:
    """Return the record without layer counts that are the same as before: 10,000 rounds add up."""
    if record.get("live") == previous:
        return {key: value for key, value in record.items() if key != "live"}
    return record


def end_record(records: list[Record], state: ServerState) -> Record:
    """Return the record that closes a finished run."""
    return {
        "kind": "end",
        "rounds": state.round,
        "accuracy": final_accuracy(records),
        "density": density(state.masks),
    }
