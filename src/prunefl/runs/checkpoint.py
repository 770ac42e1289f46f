"""Stop and go on: the whole state of a run in one file, written atomically, without pickle (docs/method.md 12)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunefl import wire
from prunefl.core.masks import packed_bits
from prunefl.core.refit import Evidence
from prunefl.methods import Memory
from prunefl.rounds.cost import Totals
from prunefl.rounds.server import ServerState
from prunefl.system.files import CheckpointError, cut_off, load_arrays, save_arrays

KEPT = 2
"""Checkpoints kept: the last, and the one before it in case the last cannot be read."""


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any], durable: bool = True
) -> Path:
    """Write tensors and JSON; see `save_arrays`."""
    return save_arrays(path, {name: tensor.numpy() for name, tensor in tensors.items()}, about, durable)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON of a file that `save_tensors` wrote."""
    arrays, about = load_arrays(path)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, about


def save(folder: Path, state: ServerState, extra: Mapping[str, Any]) -> Path:
    """Write a checkpoint and remove those that are older than the last two.

    Args:
        extra: JSON that the engine wants back: its clients' states, the length of the records.
    """
    tensors = {f"values/{name}": value for name, value in state.values.items()}
    tensors |= residual_tensors(state.residual)
    tensors |= {f"memory/{name}": value for name, value in state.memory.tensors.items()}
    for named, masks in state.past.items():
        tensors |= {f"mask/{named.hex()}/{name}": bits_of(mask) for name, mask in masks.items()}
    about = {
        "round": state.round,
        "pruned": state.pruned,
        "known": {str(client): named.hex() for client, named in state.known.items()},
        "past": [named.hex() for named in state.past],
        "shapes": {name: list(mask.shape) for name, mask in state.masks.items()},
        "memory": dict(state.memory.numbers),
        "totals": asdict(state.totals),
        "evidence": {str(client): asdict(seen) for client, seen in state.evidence.items()},
        "extra": dict(extra),
    }
    path = save_tensors(folder / f"{_step(state):07d}", tensors, about)
    for old in [*_found(folder)[KEPT:], *cut_off(folder)]:
        old.unlink()
    return path


def _step(state: ServerState) -> int:
    """Return a checkpoint's number: initial pruning is a stage of its own, before round 1 and after nothing."""
    return state.round + 1 if state.pruned else 0


@dataclass(frozen=True)
class Loaded:
    """A checkpoint's state, what the engine wants back, and what is wrong with newer checkpoints."""

    state: ServerState
    extra: dict[str, Any]
    complaints: list[str]


def load_latest(folder: Path, record_bytes: int, last_round: int | None = None) -> Loaded | None:
    """Return the newest usable checkpoint, None if there is none.

    Args:
        record_bytes: length of the records that are there; a checkpoint that knows of more is of no use.
        last_round: those of later rounds are of no use either.
    """
    complaints: list[str] = []
    for path in _found(folder):
        if last_round is not None and _step_of(path) > last_round + 1:
            continue
        try:
            state, extra = _load(path)
        except CheckpointError as error:
            complaints.append(str(error))
            continue
        if extra["record_bytes"] <= record_bytes:
            return Loaded(state, extra, complaints)
        complaints.append(f"{path}: knows of records that are gone from records.jsonl")
    if complaints:
        advice = "delete the run's folder to begin it anew"
        raise CheckpointError(f"no checkpoint can be used, {advice}: {'; '.join(complaints)}")
    return None


def forget_after(folder: Path, state: ServerState) -> None:
    """Remove the checkpoints that come after a state: who goes on from it writes other records than they know."""
    for path in _found(folder):
        if _step_of(path) > _step(state):
            path.unlink()


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*-*.safetensors"), reverse=True)


def _step_of(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _load(path: Path) -> tuple[ServerState, dict[str, Any]]:
    with understood(path):
        return _state_of(*load_tensors(path))


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Make a CheckpointError of what goes wrong with a whole file that says something else than we expect."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: not a checkpoint of this version ({type(error).__name__}: {error})"
        ) from None


def _state_of(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> tuple[ServerState, dict[str, Any]]:
    past = {
        bytes.fromhex(named): {
            name: mask_of(tensors[f"mask/{named}/{name}"], shape) for name, shape in about["shapes"].items()
        }
        for named in about["past"]
    }
    state = ServerState(
        values=under("values/", tensors),
        masks=list(past.values())[-1],
        round=about["round"],
        pruned=about["pruned"],
        known={int(client): bytes.fromhex(named) for client, named in about["known"].items()},
        past=past,
        memory=Memory(about["memory"], under("memory/", tensors)),
        residual=residual_of(tensors),
        totals=Totals(**about["totals"]),
        evidence={int(client): _evidence(seen) for client, seen in about["evidence"].items()},
    )
    return state, about["extra"]


def _evidence(seen: Mapping[str, Any]) -> Evidence:
    """Return what JSON kept of round times; its lists were tuples."""
    return Evidence(tuple(map(tuple, seen["gram"])), tuple(seen["moment"]), seen["rounds"])


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, by the rest of their names."""
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def residual_tensors(residual: wire.Residual | None) -> dict[str, Tensor]:
    """Return a residual as tensors to save, the digest of its masks in their names."""
    if residual is None:
        return {}
    return {f"residual/{residual.digest.hex()}/{name}": value for name, value in residual.values.items()}


def residual_of(tensors: Mapping[str, Tensor]) -> wire.Residual | None:
    """Return the residual that was saved among these tensors, if any."""
    found = under("residual/", tensors)
    if not found:
        return None
    named = next(iter(found)).partition("/")[0]
    return wire.Residual(bytes.fromhex(named), under(f"{named}/", found))


def bits_of(mask: Tensor) -> Tensor:
    """Return the mask as uint8, eight weights a byte."""
    return torch.frombuffer(bytearray(packed_bits(mask)), dtype=torch.uint8)


def mask_of(bits: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the mask of this shape that the bits hold."""
    count = int(np.prod(shape))
    unpacked = np.unpackbits(bits.numpy(), bitorder="little", count=count)
    return torch.from_numpy(unpacked.view(np.bool_)).view(shape)
