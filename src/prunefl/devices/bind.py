"""From a device file to the device as one model finds it: recognised by its layers, or guessed from FLOPs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunefl.devices.device import Device, LayerCost, StepMemory, Ways
from prunefl.devices.file import PRESETS, DeviceFile, Measured
from prunefl.system.errors import PruneFLError


@dataclass(frozen=True)
class Shape:
    """What the clock must know of a model: weights and output positions by layer, and the rest.

    Attributes:
        unpruned: parameters that have no mask.
        whole: layers that are never pruned.
    """

    weights: Mapping[str, int]
    positions: Mapping[str, int]
    unpruned: int
    whole: frozenset[str] = frozenset()

    def only(self, names: Sequence[str]) -> "Shape":
        """Return these of the layers."""
        weights, positions = ({n: table[n] for n in names} for table in (self.weights, self.positions))
        return Shape(weights, positions, self.unpruned, self.whole & set(names))


def bind(device: DeviceFile, shape: Shape, batch: int) -> Device:
    """Return the device for this model; step times go with the batch size."""
    found = next((measured for measured in device.models if _layers_of(measured, shape)), None)
    if found is None and device.source not in PRESETS:
        raise PruneFLError(_another_model(device, shape))
    note, estimated = device.note, found is None
    if found is None:
        found = _estimated(device, shape)
        note = f"{device.name} was not measured with this model: step times are estimated from FLOPs"
    # layers that were left whole in the measurement, too, are in its constant
    shape = shape.only(_layers_of(found, shape))
    scale = batch / found.batch
    costs = dict(zip(shape.weights, _layer_costs(found, shape, scale), strict=True))
    whole = [costs[name] for name in shape.weights if name in shape.whole]
    ordinary = sum(cost.ordinary.seconds(cost.weights) for cost in whole)
    full = sum(cost.importance.seconds(cost.weights) for cost in whole)
    return Device(
        name=device.name,
        constant=found.constant * scale + ordinary,
        full_more=full - ordinary,
        layers={name: cost for name, cost in costs.items() if name not in shape.whole},
        link=device.link,
        unpruned=shape.unpruned,
        overhead=device.overhead + found.overhead,
        kinked=bool(found.dense),
        memory=_memory(found, sum(cost.weights for cost in whole)),
        note=note,
        estimated=estimated,
    )


def _memory(measured: Measured, whole: int) -> StepMemory | None:
    """Return the memory of a step, where it was measured; so many of the weights are always there."""
    if not measured.dense_bytes:
        return None
    sparse = measured.sparse_bytes + round(measured.bytes_per_weight * whole)
    return StepMemory(measured.dense_bytes, sparse, measured.bytes_per_weight)


def _layers_of(measured: Measured, shape: Shape) -> list[str]:
    """Return which layers of a model were measured; none, if it was another model.

    Those that are left whole need not be among them. The last may have another number of classes.
    """
    found: list[str] = []
    last = [*shape.weights][-1]
    for name, count in shape.weights.items():
        k = len(found)
        same = k < len(measured.weights) and shape.positions[name] == measured.positions[k]
        if same and (count == measured.weights[k] or (name == last and k == len(measured.weights) - 1)):
            found.append(name)
        elif name not in shape.whole:
            return []
    return found if len(found) == len(measured.weights) else []


def _another_model(device: DeviceFile, shape: Shape) -> str:
    names = ", ".join(measured.name for measured in device.models)
    sizes = ", ".join(str(count) for count in shape.weights.values())
    return (
        f"device={device.source!r} holds measurements of {names}, not of a model whose layers have {sizes} "
        "weights; measure it: prunefl profile --model NAME --out FILE"
    )


def _layer_costs(measured: Measured, shape: Shape, scale: float) -> list[LayerCost]:
    """Return the cost of each layer, what was measured as a whole divided among them."""
    slopes = measured.per_weight or _slopes_by_flops(measured)
    fixed = measured.fixed or (0.0,) * len(slopes)
    full: list[float] = [f + t * n for f, t, n in zip(fixed, slopes, measured.weights, strict=True)]
    whole = max(sum(full), 1e-300)
    spread = tuple((measured.dense_step - measured.constant) * seconds / whole for seconds in full)
    dense = measured.dense or spread
    costs = []
    for k, count in enumerate(shape.weights.values()):
        # another number of classes: the same layer, more or less of it
        size = scale * count / measured.weights[k]
        ordinary = Ways(dense[k] * size, fixed[k] * size, slopes[k] * scale)
        importance = ordinary
        if measured.importance_per_weight:
            importance = Ways(
                measured.importance_dense[k] * size,
                measured.importance_fixed[k] * size,
                measured.importance_per_weight[k] * scale,
            )
        costs.append(LayerCost(count, ordinary, importance))
    return costs


def _slopes_by_flops(measured: Measured) -> tuple[float, ...]:
    """Return seconds per live weight: what the sparse step takes beyond the constant, divided by FLOPs."""
    work = sum(n * p for n, p in zip(measured.weights, measured.positions, strict=True))
    return tuple((measured.sparse_step - measured.constant) * p / work for p in measured.positions)


def _estimated(device: DeviceFile, shape: Shape) -> Measured:
    """Return step times at the rate that the measured models imply: seconds per FLOP of a dense step."""
    batch = device.models[0].batch
    work = sum(m.batch * n * p for m in device.models for n, p in zip(m.weights, m.positions, strict=True))
    own = batch * sum(n * p for n, p in zip(shape.weights.values(), shape.positions.values(), strict=True))
    constant, dense, sparse = (
        sum(part) * own / work for part in zip(*map(_whole, device.models), strict=True)
    )
    return Measured(
        name="estimated",
        batch=batch,
        constant=constant,
        weights=tuple(shape.weights.values()),
        positions=tuple(shape.positions.values()),
        dense_step=dense,
        sparse_step=sparse,
    )


def _whole(measured: Measured) -> tuple[float, float, float]:
    """Return the seconds of the constant part, of a dense step and of an all-sparse step, at full size."""
    fixed = measured.fixed or (0.0,) * len(measured.weights)
    lines = zip(fixed, measured.per_weight, measured.weights, strict=False)
    sparse = measured.sparse_step or measured.constant + sum(f + t * n for f, t, n in lines)
    return measured.constant, measured.dense_step or measured.constant + sum(measured.dense), sparse
