"""T(M) as JSON: the client that prunes first weighs time as the server does (SPEC 8)."""

import json
from typing import Any

from prunefl.core.time_model import DeviceTime, FleetTime, KinkedTime, LinearTime, TimeModel


def to_json(model: TimeModel) -> str:
    """Return the text of a time model made of lines."""
    devices = model.devices if isinstance(model, FleetTime) else (model,)
    return json.dumps([_described(device) for device in devices])


def from_json(text: str) -> TimeModel:
    """Return the time model of a text that `to_json` wrote."""
    devices = tuple(_device(entry) for entry in json.loads(text))
    return devices[0] if len(devices) == 1 else FleetTime(devices)


def _described(device: TimeModel) -> dict[str, Any]:
    if isinstance(device, LinearTime):
        return {"constant": device.constant, "per_weight": dict(device.per_weight)}
    if isinstance(device, KinkedTime):
        return {"constant": device.constant, "ways": dict(device.ways)}
    raise ValueError(
        f"time model {type(device).__name__} cannot be sent; use LinearTime, KinkedTime or FleetTime"
    )


def _device(entry: dict[str, Any]) -> DeviceTime:
    if "per_weight" in entry:
        return LinearTime(entry["constant"], entry["per_weight"])
    ways = {name: tuple((a, b) for a, b in lines) for name, lines in entry["ways"].items()}
    return KinkedTime(entry["constant"], ways)
