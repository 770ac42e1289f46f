"""Stop and go on: the whole state of a run in one file, written atomically, without pickle (SPEC 12)."""

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from prunefl import wire
from prunefl.core.masks import packed_bits
from prunefl.core.refit import Evidence
from prunefl.methods import Memory
from prunefl.rounds.cost import Totals
from prunefl.rounds.server import ServerState

KEPT = 2
"""Checkpoints kept: the last, and the one before it in case the last cannot be read."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read."""


def write_atomically(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file so that a reader, or a crash, sees all of it or nothing; if durable, a power cut too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    temporary.replace(path)


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any], durable: bool = True
) -> Path:
    """Write tensors and JSON as safetensors; the checksum of the bytes goes into the file's name."""
    data = safetensors.torch.save(
        {name: tensor.contiguous() for name, tensor in tensors.items()}, {"about": json.dumps(about)}
    )
    target = path.with_name(f"{path.name}-{zlib.crc32(data):08x}.safetensors")
    write_atomically(target, data, durable)
    return target


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON of a file that `save_tensors` wrote."""
    try:
        data = path.read_bytes()
        if f"{zlib.crc32(data):08x}" != path.stem.rpartition("-")[2]:
            raise CheckpointError(f"{path}: the bytes do not match their checksum")
        length = int.from_bytes(data[:8], "little")
        about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["about"])
        return safetensors.torch.load(data), about
    except CheckpointError:
        raise
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: not a readable checkpoint: {error}") from None


def cut_off(folder: Path) -> list[Path]:
    """Return what processes left behind that were killed while they wrote into this folder."""
    return list(folder.glob(".*.safetensors.tmp"))


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
    # Initial pruning is a stage of its own, before round 1 and after nothing.
    step = state.round + 1 if state.pruned else 0
    path = save_tensors(folder / f"{step:07d}", tensors, about)
    for old in [*_found(folder)[KEPT:], *cut_off(folder)]:
        old.unlink()
    return path


def load_latest(folder: Path, record_bytes: int) -> tuple[ServerState, dict[str, Any], list[str]] | None:
    """Return the newest usable state, its extra, and what is wrong with newer ones; None if there is none.

    Args:
        record_bytes: length of the records that are there; a checkpoint that knows of more is of no use.
    """
    complaints: list[str] = []
    for path in _found(folder):
        try:
            state, extra = _load(path)
        except CheckpointError as error:
            complaints.append(str(error))
            continue
        if extra["record_bytes"] <= record_bytes:
            return state, extra, complaints
        complaints.append(f"{path}: knows of records that are gone from records.jsonl")
    if complaints:
        advice = "delete the run's folder to begin it anew"
        raise CheckpointError(f"no checkpoint can be used, {advice}: {'; '.join(complaints)}")
    return None


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"), reverse=True)


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
