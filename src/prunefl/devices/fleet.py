"""Which client has which device, and what T that makes for the reconfiguration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from prunefl.core.time_model import DeviceTime, FleetTime, KinkedTime, LinearTime, fleet_time
from prunefl.devices.bind import Shape, bind
from prunefl.devices.device import Device, Link
from prunefl.devices.file import load
from prunefl.models import flops
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config import Config, FleetSettings

WIRE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0}


def shape_of(model: nn.Module, input_shape: Sequence[int], names: Sequence[str]) -> Shape:
    """Return what the clock must know of a model."""
    parameters = dict(model.named_parameters())
    weights = {name: parameters[name].numel() for name in names}
    unpruned = sum(p.numel() for name, p in parameters.items() if name not in weights)
    return Shape(weights, flops.positions(model, input_shape, names), unpruned)


def fleet(
    config: "Config", model: nn.Module, input_shape: Sequence[int], names: Sequence[str]
) -> list[Device]:
    """Return the device of every client: [[fleet]] groups in their order, or time.device for all."""
    shape, batch = shape_of(model, input_shape, names), config.training.batch_size
    if not config.fleet:
        return [bind(load(config.time.device), shape, batch)] * config.data.clients
    devices: list[Device] = []
    for group, count in zip(config.fleet, config.fleet_counts(), strict=True):
        devices += [_as_configured(bind(load(group.device), shape, batch), group)] * count
    return devices


def _as_configured(device: Device, group: "FleetSettings") -> Device:
    """Return the device with the link and jitter of its group."""
    link = device.link
    if group.bandwidth:
        link = Link(group.bandwidth, group.bandwidth, link.latency)
    return replace(device, link=replace(link, latency=link.latency + group.latency), jitter=group.jitter)


def round_time(
    devices: Sequence[Device], config: "Config", names: Sequence[str]
) -> LinearTime | KinkedTime | FleetTime:
    """Return T of the fleet: linear if one device type is always the slowest and has no kinks."""
    assert all(list(device.layers) == list(names) for device in devices)
    distinct = {id(device): device for device in devices}.values()
    return fleet_time([device_time(device, config) for device in distinct], sizes_of(devices[0]))


def sizes_of(device: Device) -> dict[str, int]:
    """Return the weights of each layer of the device's model."""
    return {name: layer.weights for name, layer in device.layers.items()}


def device_time(device: Device, config: "Config") -> DeviceTime:
    """Return T of one device under this config."""
    # with the paper's window every step computes the full weight gradient, else hardly any
    full = config.importance.window == "all"
    return device.round_time(config.training.local_steps, WIRE_BYTES[config.wire.precision], full)


def memory_density(devices: Sequence[Device], num_bytes: int) -> float | None:
    """Return d_l: the density at which a training step fits into so many bytes on every device.

    Args:
        num_bytes: what the model and its step may take, beside the program itself (time.memory_limit).
    """
    limits = []
    for device in {id(device): device for device in devices}.values():
        if device.memory is None:
            raise PruneFLError(
                f"time.memory_limit={num_bytes}, but {device.name} has no memory measured for this model; "
                "measure it: prunefl profile --model NAME --out FILE"
            )
        limits.append(device.memory.density_limit(num_bytes, sum(sizes_of(device).values())))
    return min((limit for limit in limits if limit is not None), default=None)


def fastest(devices: Sequence[Device], among: Sequence[int]) -> int:
    """Return the client, of these, that has the fastest device: it does the initial pruning (docs/method.md 8)."""
    return min(among, key=lambda client: (devices[client].dense_step_seconds(), client))
