"""Devices: what a step and a message cost on each, in files and built in, and fleets of them."""

from prunefl.devices.bind import Shape, bind
from prunefl.devices.device import Device, LayerCost, Link, StepMemory, Ways
from prunefl.devices.file import PRESETS, DeviceFile, Measured, load, parse
from prunefl.devices.fleet import device_time, fleet, memory_density, round_time, shape_of, spoken_estimates
from prunefl.devices.write import dump

__all__ = [
    "PRESETS",
    "Device",
    "DeviceFile",
    "LayerCost",
    "Link",
    "Measured",
    "Shape",
    "StepMemory",
    "Ways",
    "bind",
    "device_time",
    "dump",
    "fleet",
    "load",
    "memory_density",
    "parse",
    "round_time",
    "shape_of",
    "spoken_estimates",
]
