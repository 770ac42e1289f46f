"""Which client has which device, and what T that makes for the reconfiguration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prunefl.core.network import Network
from prunefl.core.time_model import DeviceTime, FleetTime, KinkedTime, LinearTime, fleet_time
from prunefl.devices.bind import Shape, bind
from prunefl.devices.device import Device, Link
from prunefl.devices.file import load
from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.config import Config, FleetSettings

WIRE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0}


def shape_of(network: Network) -> Shape:
    """Return what the clock must know of a network."""
    sizes = network.full_masks.sizes
    counts = {**sizes, **network.whole_sizes}
    positions = {**network.positions, **network.whole_positions}
    order = [name for name in network.template.names if name in counts]
    return Shape(
        {name: counts[name] for name in order},
        {name: positions[name] for name in order},
        network.parameters - sum(sizes.values()),
        frozenset(network.whole_sizes),
    )


def fleet(config: "Config", network: Network) -> list[Device]:
    """Return the device of every client: [[fleet]] groups in their order, or time.device for all."""
    shape, batch = shape_of(network), config.training.batch_size
    if not config.fleet:
        return [bind(load(config.time.device), shape, batch)] * config.data.clients
    devices: list[Device] = []
    for group, count in zip(config.fleet, config.fleet_counts(), strict=True):
        devices += [_as_configured(bind(load(group.device), shape, batch), group)] * count
    return devices


def spoken_estimates(devices: Sequence[Device]) -> str:
    """Return whose seconds are guessed, in words; none where all were measured."""
    names = sorted({device.name for device in devices if device.estimated})
    if not names:
        return ""
    return f"simulated time of {', '.join(names)} is estimated from FLOPs (prunefl profile measures a device)"


def _as_configured(device: Device, group: "FleetSettings") -> Device:
    """Return the device with the link and jitter of its group."""
    link = device.link
    if group.bandwidth:
        link = Link(group.bandwidth, group.bandwidth, link.latency)
    return replace(device, link=replace(link, latency=link.latency + group.latency), jitter=group.jitter)


def round_time(devices: Sequence[Device], config: "Config") -> LinearTime | KinkedTime | FleetTime:
    """Return T of the fleet: linear if one device type is always the slowest and has no kinks."""
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
