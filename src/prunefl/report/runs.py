"""Read run folders: what can be read is used, and what could not be is said."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from prunefl.runs.records import final_score
from prunefl.system.errors import PruneFLError

LARGEST_FILE = 1 << 30
"""A longer record file is refused rather than read into memory."""

LARGEST_NUMBER = 1e300
"""A number beyond it cannot be added up."""

VARIANT_FILE = "variant.json"
"""Beside a run: what `prunefl compare`, `lottery` or `sweep` made it for."""


@dataclass(frozen=True)
class RecordedRun:
    """One run as its records tell it.

    Attributes:
        header: the record of kind "run".
        initial: the record of kind "initial", or None.
        rounds: the records of kind "round", in order.
        config: the tables of config.toml.
        finished: whether the last round was recorded as such.
        variant: what the run was made for; empty for a plain `prunefl run`.
        notes: what is missing or damaged, in words.
    """

    folder: Path
    header: Mapping[str, Any]
    initial: Mapping[str, Any] | None
    rounds: tuple[Mapping[str, Any], ...]
    config: Mapping[str, Any]
    finished: bool = True
    variant: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        return str(self.header["method"])

    @property
    def seed(self) -> int:
        return int(self.header["seed"])

    @property
    def delivered(self) -> float | None:
        """Return the accuracy, or the task's own metric, of the model that the run delivers, or None without one."""
        return final_score(self.rounds)

    @property
    def planned(self) -> int:
        """Return how many rounds the run is to have."""
        return int(self.config.get("run", {}).get("rounds", self.rounds[-1]["round"]))


def find_runs(folders: Iterable[Path]) -> tuple[list[RecordedRun], list[str]]:
    """Return every run in or below the folders that has a round to show, and notes on those that have none.

    Raises:
        PruneFLError: a folder holds no run, or no run has anything to show.
    """
    runs: list[RecordedRun] = []
    notes: list[str] = []
    for file in _record_files(folders):
        try:
            run = read_run(file.parent)
        except PruneFLError as error:
            notes.append(f"left out: {error}")
            continue
        if run.rounds:
            runs.append(run)
        else:
            notes.append(f"{run.folder}: left out: {'; '.join(run.notes)}")
    if not runs:
        advice = "wait for a first round, go on with a stopped run by --resume, or run a damaged one anew"
        raise PruneFLError("\n  ".join([f"there is no run to show; {advice}:", *notes]))
    return runs, notes


def without_records(folders: Iterable[Path]) -> Iterator[RecordedRun]:
    """Yield what runs were made for and with, before a record is read; damaged folders are left to the report."""
    for folder in folders:
        try:
            yield RecordedRun(
                folder, {}, None, (), read_config(folder / "config.toml"), variant=read_variant(folder)
            )
        except PruneFLError:
            continue


def _record_files(folders: Iterable[Path]) -> list[Path]:
    """Return each record file once, in order; each folder must hold at least one."""
    found: dict[Path, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise PruneFLError(f"{folder}: no such folder")
        files = sorted(folder.rglob("records.jsonl"))
        if not files:
            raise PruneFLError(f"{folder}: no runs found (no records.jsonl in it or below it)")
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def read_run(folder: Path) -> RecordedRun:
    """Return the readable part of a run folder."""
    file = folder / "records.jsonl"
    records, notes = _records(file)
    header = records[0] if records else {}
    if header.get("kind") != "run" or not isinstance(header.get("seed"), int) or "method" not in header:
        raise PruneFLError(f"{file}: its first line is not a readable record of kind 'run'")
    rounds = _rounds(records)
    config = read_config(folder / "config.toml")
    finished = any(record["kind"] == "end" for record in records)
    if not finished:
        notes.append(f"unfinished: {len(rounds)} of {config.get('run', {}).get('rounds', '?')} rounds")
    initial = next((record for record in records if record["kind"] == "initial"), None)
    return RecordedRun(folder, header, initial, rounds, config, finished, read_variant(folder), tuple(notes))


def _records(file: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records before the first damaged line, and a note if there is one."""
    if file.stat().st_size > LARGEST_FILE:
        raise PruneFLError(f"{file}: {file.stat().st_size} bytes, must be at most {LARGEST_FILE}")
    records: list[dict[str, Any]] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict) or not is_whole(record):
                used = f"the {len(records)} records before it are used"
                return records, [
                    f"line {number} is damaged; {used}; to have the rest, delete the folder and run it again"
                ]
            records.append(record)
    return records, []


def is_whole(record: Mapping[str, Any]) -> bool:
    """Return whether a record has what the report reads of it, and numbers where it expects them."""
    kind = record.get("kind")
    tables = (record.get(key, {}) for key in ("layers", "live", "seconds"))
    if not isinstance(kind, str) or not all(map(_numbers, tables)):
        return False
    if kind == "initial":
        # a stage before round 1 that prunes nothing has none
        segments = record.get("segments", [])
        return isinstance(segments, list) and all(map(_whole_segment, segments))
    return kind != "round" or _whole_round(record)


def _whole_round(record: Mapping[str, Any]) -> bool:
    totals = record.get("total")
    return (
        isinstance(record.get("round"), int)
        and _is_number(record["round"])
        and _is_number(record.get("density"))
        and all(
            record.get(key) is None or _is_number(record[key])
            for key in ("accuracy", "score", "predicted_seconds")
        )
        and ("reconfiguration" not in record or _whole_reconfiguration(record["reconfiguration"]))
        and ("evaluation" not in record or _whole_evaluation(record["evaluation"]))
        and _numbers(totals)
        and {"seconds", "bytes_up", "bytes_down", "flops"} <= totals.keys()
    )


def _whole_evaluation(table: Any) -> bool:
    if not isinstance(table, dict) or not isinstance(table.get("by_client"), dict):
        return False
    # a secure sum does not tell how single clients do
    alone = ("worst_tenth",) if table["by_client"] else ()
    named = ("clients", "samples", "accuracy", "loss", "client_accuracy", *alone)
    personal, seconds = table.get("personal", {}), table.get("seconds")
    if not isinstance(personal, dict) or not personal.keys() <= table["by_client"].keys():
        return False
    scores = [*table["by_client"].values(), *personal.values()]
    return (
        all(_is_number(table.get(name)) for name in named)
        and _numbers(seconds)
        and "total" in seconds
        and all(isinstance(s, list) and len(s) == 2 and all(map(_is_number, s)) and s[1] > 0 for s in scores)
    )


def _whole_reconfiguration(table: Any) -> bool:
    named = {"cut", "grown", "seconds", "saved", "gain", "lost"}
    layers = table.get("layers") if isinstance(table, dict) else None
    return (
        isinstance(layers, dict)
        and all(_is_number(table.get(name)) for name in ("gamma", "seconds", "lost"))
        and all(_numbers(layer) and named <= layer.keys() for layer in layers.values())
    )


def _whole_segment(segment: Any) -> bool:
    if not isinstance(segment, dict) or not all(_is_number(segment.get(key)) for key in ("steps", "loss")):
        return False
    told = (segment.get(key, 0) for key in ("passes", "gamma", "lost"))
    return all(map(_is_number, told)) and _numbers(segment.get("live"))


def _numbers(table: Any) -> TypeGuard[dict[str, float]]:
    return isinstance(table, dict) and all(map(_is_number, table.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < LARGEST_NUMBER


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


def read_config(file: Path) -> Mapping[str, Any]:
    """Return the tables of a run's config; none where there is no file."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PruneFLError(f"{file}: not valid TOML: {error}") from error


def read_variant(folder: Path) -> Mapping[str, Any]:
    file = folder / VARIANT_FILE
    if not file.is_file():
        return {}
    try:
        variant = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PruneFLError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(variant, dict) or not isinstance(variant.get("settings", {}), dict):
        raise PruneFLError(f"{file}: must hold an object, and one as its settings")
    return variant
