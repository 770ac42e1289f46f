"""Devices: what a step and a message cost on each, in files and built in, and fleets of them."""

from prunefl.devices.bind import Shape, bind
from prunefl.devices.device import Device, LayerCost, Link, Ways
from prunefl.devices.file import PRESETS, DeviceFile, Measured, load, parse
from prunefl.devices.fleet import fastest, fleet, round_time, shape_of

__all__ = [
    "PRESETS",
    "Device",
    "DeviceFile",
    "LayerCost",
    "Link",
    "Measured",
    "Shape",
    "Ways",
    "bind",
    "fastest",
    "fleet",
    "load",
    "parse",
    "round_time",
    "shape_of",
]
