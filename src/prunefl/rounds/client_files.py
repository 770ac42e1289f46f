"""A client's state as arrays and JSON, the same in the simulator's folder and on a real device."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from prunefl import wire
from prunefl.core.masks import Masks, unpack_mask
from prunefl.core.memory import Memory
from prunefl.core.moments import Moments
from prunefl.core.state import Arrays, SparseState
from prunefl.rounds.client import ClientState


def under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays whose names begin with the prefix, by the rest of their names."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def residual_arrays(residual: wire.Residual | None) -> dict[str, Any]:
    """Return a residual as arrays to save, the digest of its masks in their names."""
    if residual is None:
        return {}
    return {f"residual/{residual.digest.hex()}/{name}": value for name, value in residual.values.items()}


def residual_of(arrays: Mapping[str, Any]) -> wire.Residual | None:
    """Return the residual that was saved among these arrays, if any."""
    found = under("residual/", arrays)
    if not found:
        return None
    named = next(iter(found)).partition("/")[0]
    return wire.Residual(bytes.fromhex(named), under(f"{named}/", found))


def memory_arrays(memory: Memory) -> dict[str, Any]:
    """Return a memory's arrays to save; its numbers are JSON."""
    return {f"memory/{name}": value for name, value in memory.arrays.items()}


def memory_of(arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> Memory:
    """Return the memory that was saved."""
    kept: Arrays = under("memory/", arrays)
    return Memory(dict(numbers), kept)


def moment_arrays(moments: Moments) -> dict[str, Any]:
    """Return an optimiser's moments to save, with masks of their own: weights may live under others by then."""
    if not moments.slots:
        return {}
    masks = next(iter(moments.slots.values())).masks
    arrays: dict[str, Any] = {"moments/steps": np.array([moments.steps], np.int64)}
    for slot, state in moments.slots.items():
        arrays |= {f"moments/slot/{slot}/{name}": value for name, value in state.values.items()}
    shapes = {f"moments/shape/{name}": np.array(shape, np.int64) for name, shape in masks.shapes.items()}
    return arrays | shapes | {f"moments/{name}": bits for name, bits in mask_arrays(masks).items()}


def moments_of(arrays: Mapping[str, Any]) -> Moments:
    """Return the moments that were saved among these arrays."""
    found = under("moments/", arrays)
    if not found:
        return Moments()
    shapes = {name: shape.tolist() for name, shape in under("shape/", found).items()}
    masks, values = masks_of(found, shapes), under("slot/", found)
    slots = list(dict.fromkeys(name.partition("/")[0] for name in values))
    states = {slot: SparseState(under(f"{slot}/", values), masks) for slot in slots}
    return Moments(int(found["steps"][0]), states)


def mask_arrays(masks: Masks | None) -> dict[str, Any]:
    """Return masks as bits to save."""
    return {} if masks is None else {f"mask/{name}": bits for name, bits in masks.packed.items()}


def masks_of(arrays: Mapping[str, Any], shapes: Mapping[str, list[int]]) -> Masks:
    """Return the masks that were saved as bits, in the order of these shapes."""
    bits = under("mask/", arrays)
    return Masks({name: unpack_mask(bits[name], shape) for name, shape in shapes.items()})


def state_arrays(state: ClientState) -> dict[str, Any]:
    """Return what a client's state takes on disk, but for its masks."""
    return memory_arrays(state.memory) | residual_arrays(state.residual) | moment_arrays(state.moments)
