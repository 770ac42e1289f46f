"""Write a device file: the TOML that `load` reads."""

import json
import math
from dataclasses import fields
from typing import Any

from prunefl.devices.device import Link
from prunefl.devices.file import DeviceFile, Measured


def dump(device: DeviceFile) -> str:
    """Return the device as TOML; what is empty or zero by default is left out."""
    lines = ["# Seconds of training steps by layer, as `prunefl run` takes them. Made by `prunefl profile`."]
    lines += [f"{key} = {_value(getattr(device, key))}" for key in ("name", "note", "overhead")]
    lines += ["", "[link]", *_link(device.link)]
    for measured in device.models:
        lines += ["", "[[model]]", *_measured(measured)]
    return "\n".join(lines) + "\n"


def _link(link: Link) -> list[str]:
    lines = [f"{key} = {_value(getattr(link, key))}" for key in ("up", "down", "latency")]
    return lines + ([f"long_message = {_value(link.long_message)}"] if link.long_message else [])


def _measured(measured: Measured) -> list[str]:
    values = ((field.name, getattr(measured, field.name)) for field in fields(Measured))
    return [f"{key} = {_value(value)}" for key, value in values if value or key == "constant"]


def _value(value: Any) -> str:
    """Return a TOML value; numbers keep seven digits, which is more than a clock has."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(float(f"{value:.7g}"))
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)
