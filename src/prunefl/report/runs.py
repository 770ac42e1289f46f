"""Read run folders: what can be read is used, and what could not be is said."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LARGEST_FILE = 1 << 30
"""A longer record file is refused rather than read into memory."""

VARIANT_FILE = "variant.json"
"""Beside a run: what `prunefl compare`, `lottery` or `sweep` made it for."""


@dataclass(frozen=True)
class Run:
    """One run as its records tell it.

    Attributes:
        header: the record of kind "run".
        initial: the record of kind "initial", or None.
        rounds: the records of kind "round", in order.
        config: the tables of config.toml.
        variant: what the run was made for; empty for a plain `prunefl run`.
        notes: what is missing or damaged, in words.
    """

    folder: Path
    header: Mapping[str, Any]
    initial: Mapping[str, Any] | None
    rounds: tuple[Mapping[str, Any], ...]
    config: Mapping[str, Any]
    variant: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        return str(self.header["method"])

    @property
    def seed(self) -> int:
        return int(self.header["seed"])

    @property
    def evaluated(self) -> list[Mapping[str, Any]]:
        """Return the rounds in which accuracy was measured."""
        return [record for record in self.rounds if record.get("accuracy") is not None]


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Return every run in or below the folders, sorted by path; each folder must hold at least one."""
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder}: no such folder")
        files = sorted(folder.rglob("records.jsonl"))
        if not files:
            raise ValueError(f"{folder}: no runs found (no records.jsonl in it or below it)")
        found |= {file.resolve(): read_run(file.parent) for file in files if file.resolve() not in found}
    return [run for run in found.values() if run.rounds] or _nothing_to_show(found)


def _nothing_to_show(found: Mapping[Path, Run]) -> list[Run]:
    raise ValueError(f"{next(iter(found)).parent}: no round is recorded in any of {len(found)} runs yet")


def read_run(folder: Path) -> Run:
    """Return the readable part of a run folder."""
    records, notes = _records(folder / "records.jsonl")
    header = next((record for record in records if record["kind"] == "run"), None)
    if header is None or "method" not in header or "seed" not in header:
        raise ValueError(f"{folder / 'records.jsonl'}: does not begin with a record of kind 'run'")
    rounds = _rounds(records)
    config = _config(folder / "config.toml")
    if not any(record["kind"] == "end" for record in records):
        planned = config.get("run", {}).get("rounds", "?")
        notes.append(f"unfinished: {len(rounds)} of {planned} rounds")
    initial = next((record for record in records if record["kind"] == "initial"), None)
    return Run(folder, header, initial, rounds, config, _variant(folder), tuple(notes))


def _records(file: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records before the first damaged line, and a note if there is one."""
    if file.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{file}: {file.stat().st_size} bytes, must be at most {LARGEST_FILE}")
    records: list[dict[str, Any]] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                record = None
            if not isinstance(record, dict) or not _whole(record):
                return records, [f"line {number} is damaged; the {len(records)} records before it are used"]
            records.append(record)
    return records, []


def _whole(record: Mapping[str, Any]) -> bool:
    """Return whether a record has what the report reads of it."""
    if record.get("kind") != "round":
        return isinstance(record.get("kind"), str)
    totals = record.get("total")
    return (
        isinstance(record.get("round"), int)
        and isinstance(totals, dict)
        and {"seconds", "bytes_up", "bytes_down", "flops"} <= totals.keys()
    )


def _rounds(records: Iterable[dict[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the round records with `live` in each; of a round recorded twice, the later."""
    rounds: dict[int, dict[str, Any]] = {}
    live: Mapping[str, int] = {}
    for record in records:
        # written only where it changed: the first rounds have what initial pruning left
        live = record.get("live") or live
        if record["kind"] == "round":
            rounds[record["round"]] = {**record, "live": live}
    return tuple(rounds[number] for number in sorted(rounds))


def _config(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not valid TOML: {error}") from error


def _variant(folder: Path) -> Mapping[str, Any]:
    file = folder / VARIANT_FILE
    if not file.is_file():
        return {}
    try:
        variant = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(variant, dict):
        raise ValueError(f"{file}: must hold an object")
    return variant
