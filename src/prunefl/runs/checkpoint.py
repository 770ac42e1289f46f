"""Stop and go on: the whole state of a run in one file, written atomically, without pickle (docs/method.md 12)."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prunefl.core.network import Template
from prunefl.core.refit import Evidence
from prunefl.core.state import SparseState
from prunefl.rounds import client_files
from prunefl.rounds.client_files import under
from prunefl.rounds.cost import Totals
from prunefl.rounds.private import Spent
from prunefl.rounds.server import ServerState
from prunefl.runs.fitting import limit_bytes, refuse_misfit
from prunefl.runs.spent import as_json, from_json
from prunefl.system.files import (
    CheckpointError,
    cut_off,
    load_arrays,
    save_arrays,
    understanding,
    write_atomically,
)

FORMAT = 2
"""What a checkpoint calls itself; version 0.1 did not say, and cannot be resumed by others."""

KEPT = 2
"""Checkpoints kept: the last, and the one before it in case the last cannot be read."""


EVALUATED = "evaluated.txt"
"""Names the last checkpoint whose model was evaluated, and found to be sound: it is kept beside the last two."""


def save(folder: Path, state: ServerState, extra: Mapping[str, Any], evaluated: bool = False) -> Path:
    """Write a checkpoint and remove those that are older than the last two, but for the last evaluated one.

    Args:
        extra: JSON that the engine wants back: its clients' states, the length of the records.
        evaluated: whether its model was evaluated.
    """
    arrays = {f"values/{name}": value for name, value in state.sparse.values.items()}
    arrays |= client_files.residual_arrays(state.residual) | client_files.memory_arrays(state.memory)
    arrays |= client_files.moment_arrays(state.moments)
    for digest, masks in state.past.items():
        arrays |= {f"{digest.hex()}/{name}": bits for name, bits in client_files.mask_arrays(masks).items()}
    about = {
        "format": FORMAT,
        "round": state.round,
        "known": {str(client): digest.hex() for client, digest in state.known.items()},
        "past": [digest.hex() for digest in state.past],
        "shapes": state.sparse.masks.shapes,
        "memory": dict(state.memory.numbers),
        "totals": asdict(state.totals),
        "usual_change": state.usual_change,
        "opposition": {str(client): value for client, value in state.opposition.items()},
        "ranges": dict(state.ranges),
        "spent": as_json(state.spent),
        "evidence": {str(client): asdict(seen) for client, seen in state.evidence.items()},
        "extra": dict(extra),
    }
    path = save_arrays(folder / f"{state.round + 1:07d}", arrays, about)
    if evaluated:
        write_atomically(folder / EVALUATED, path.name.encode())
    kept = _name_evaluated(folder)
    for old in [*_found(folder)[KEPT:], *cut_off(folder)]:
        if old.name != kept:
            old.unlink()
    return path


def _name_evaluated(folder: Path) -> str:
    path = folder / EVALUATED
    return path.read_text(errors="replace").strip() if path.exists() else ""


def go_back(folder: Path) -> int:
    """Remove all checkpoints after the last evaluated one, all if there is none; return its round, -1 for the start."""
    kept = _name_evaluated(folder)
    for path in _found(folder):
        if path.name == kept:
            return _step_of(path) - 1
        path.unlink()
    return -1


class OtherVersionError(CheckpointError):
    """A checkpoint, or all of them, that another version of prunefl wrote."""


@dataclass(frozen=True)
class Loaded:
    """A checkpoint's state, what the engine wants back, and what is wrong with newer checkpoints."""

    state: ServerState
    extra: dict[str, Any]
    complaints: list[str]


def load_latest(
    folder: Path, record_bytes: int, last_round: int | None = None, template: Template | None = None
) -> Loaded | None:
    """Return the newest usable checkpoint, None if there is none.

    Args:
        record_bytes: length of the records that are there; a checkpoint that knows of more is of no use.
        last_round: those of later rounds are of no use either.
        template: of the model of which it must be.
    """
    complaints: list[str] = []
    of_other_versions = 0
    for path in _found(folder):
        if last_round is not None and _step_of(path) > last_round + 1:
            continue
        try:
            state, extra = load_one(path, template)
        except CheckpointError as error:
            complaints.append(str(error))
            of_other_versions += isinstance(error, OtherVersionError)
            continue
        if extra["record_bytes"] <= record_bytes:
            return Loaded(state, extra, complaints)
        complaints.append(f"{path}: knows of records that are gone from records.jsonl")
    if complaints and of_other_versions == len(complaints):
        raise OtherVersionError(
            f"{folder}: another version of prunefl wrote these checkpoints: finish the run with that one, or give "
            "another --out"
        )
    if complaints:
        advice = "delete the run's folder to begin it anew"
        raise CheckpointError(f"no checkpoint can be used, {advice}: {'; '.join(complaints)}")
    return None


def forget_after(folder: Path, state: ServerState) -> None:
    """Remove the checkpoints that come after a state: who goes on from it writes other records than they know."""
    for path in _found(folder):
        if _step_of(path) > state.round + 1:
            path.unlink()


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*-*.safetensors"), reverse=True)


def _step_of(path: Path) -> int:
    return int(path.name.partition("-")[0])


def kept(folder: Path) -> dict[int, Path]:
    """Return the checkpoints that are there, by the round after which they were written."""
    return {max(0, _step_of(path) - 1): path for path in reversed(_found(folder))}


def is_checkpoint(metadata: Mapping[str, str]) -> bool:
    """Return whether a safetensors file with this metadata is a checkpoint of this version."""
    try:
        return bool(json.loads(metadata["about"])["format"] == FORMAT)
    except (KeyError, TypeError, ValueError):
        return False


def load_one(path: Path, template: Template | None = None) -> tuple[ServerState, dict[str, Any]]:
    """Return what a checkpoint holds: the server's state, and what the engine wants back; of this model, if given."""
    with understanding(path):
        arrays, about = load_arrays(path, None if template is None else limit_bytes(template))
        if about.get("format") != FORMAT:
            raise OtherVersionError(f"{path}: not a checkpoint of this version: another one wrote it")
        state, extra = _state_of(arrays, about)
        if template is not None:
            refuse_misfit(state, extra, template)
        return state, extra


def _state_of(arrays: Mapping[str, Any], about: Mapping[str, Any]) -> tuple[ServerState, dict[str, Any]]:
    past = {
        bytes.fromhex(digest): client_files.masks_of(under(f"{digest}/", arrays), about["shapes"])
        for digest in about["past"]
    }
    state = ServerState(
        sparse=SparseState(under("values/", arrays), list(past.values())[-1]),
        round=about["round"],
        memory=client_files.memory_of(arrays, about["memory"]),
        known={int(client): bytes.fromhex(digest) for client, digest in about["known"].items()},
        past=past,
        residual=client_files.residual_of(arrays),
        totals=Totals(**about["totals"]),
        usual_change=about.get("usual_change", 0.0),
        opposition={int(client): value for client, value in about.get("opposition", {}).items()},
        ranges=about.get("ranges", {}),
        spent=from_json(about["spent"]) if "spent" in about else Spent(),
        evidence={int(client): _evidence(seen) for client, seen in about["evidence"].items()},
        moments=client_files.moments_of(arrays),
    )
    return state, about["extra"]


def _evidence(seen: Mapping[str, Any]) -> Evidence:
    """Return what JSON kept of round times; its lists were tuples."""
    return Evidence(tuple(map(tuple, seen["gram"])), tuple(seen["moment"]), seen["rounds"])
