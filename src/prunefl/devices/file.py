"""Device files: TOML that says how long each layer's step takes, checked to the last key."""

import math
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from prunefl.devices.device import Link
from prunefl.system.errors import PruneFLError
from prunefl.system.suggest import did_you_mean

MAX_BYTES = 1 << 20
"""Of a device file; ours have a few kB."""

LARGEST = 2**53
"""Whole number that is a size of anything."""

PRESETS = ("raspberry-pi-4", "android-vm", "x86")


@dataclass(frozen=True)
class Measured:
    """Step times of one model, by layer in the model's order; seconds at the given batch size.

    Attributes:
        weights: prunable weights of each layer, by which a model is recognised.
        positions: output positions at which each weight works (1 for linear layers).
        constant: seconds of a step outside the prunable layers.
        per_weight: seconds per live weight in sparse form; where only whole steps were measured, empty.
        fixed: seconds of the sparse form at no live weight.
        dense: seconds of the dense form; where only the whole dense step was measured, empty.
        dense_step: seconds of a whole dense step.
        sparse_step: seconds of a whole step with all layers in sparse form and no weight pruned.
        importance_*: the same for a step with the full weight gradient; empty where it costs the same.
        r2: how well the line fits each layer.
        overhead: seconds of a round beside its steps and messages.
        command: what measured it.
    """

    name: str
    batch: int
    constant: float
    weights: tuple[int, ...]
    positions: tuple[int, ...]
    layers: tuple[str, ...] = ()
    per_weight: tuple[float, ...] = ()
    fixed: tuple[float, ...] = ()
    dense: tuple[float, ...] = ()
    dense_step: float = 0.0
    sparse_step: float = 0.0
    importance_per_weight: tuple[float, ...] = ()
    importance_fixed: tuple[float, ...] = ()
    importance_dense: tuple[float, ...] = ()
    r2: tuple[float, ...] = ()
    overhead: float = 0.0
    command: str = ""
    dense_bytes: int = 0
    sparse_bytes: int = 0
    bytes_per_weight: float = 0.0


@dataclass(frozen=True)
class DeviceFile:
    """What a device file holds; `source` is its name or path."""

    name: str
    source: str
    link: Link
    models: tuple[Measured, ...]
    overhead: float = 0.0
    note: str = ""


def load(name_or_path: str) -> DeviceFile:
    """Return a built-in device, or the one in a TOML file."""
    if name_or_path in PRESETS:
        text = resources.files("prunefl.devices").joinpath(f"{name_or_path}.toml").read_text("utf-8")
        return parse(text, name_or_path)
    path = Path(name_or_path)
    if not path.is_file():
        hint = did_you_mean(name_or_path, PRESETS)
        raise PruneFLError(
            f"device={name_or_path!r}, must be one of {', '.join(PRESETS)} or a device file{hint}"
        )
    if path.stat().st_size > MAX_BYTES:
        raise PruneFLError(f"{path}: {path.stat().st_size} bytes, a device file must have <= {MAX_BYTES}")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise PruneFLError(f"{path}: not a text file in UTF-8") from None
    return parse(text, str(path))


def parse(text: str, source: str) -> DeviceFile:
    """Return the device that a TOML text describes; anything missing, unknown or impossible is named."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PruneFLError(f"{source}: not valid TOML: {error}") from None
    known = {"name", "note", "overhead", "link", "model"}
    _refuse_unknown(source, tables, known)
    models = tables.get("model", [])
    if not isinstance(models, list) or not models:
        raise PruneFLError(f"{source}: must hold at least one [[model]]")
    return DeviceFile(
        _text(source, "name", tables.get("name", source)),
        source,
        _link(f"{source}: link", tables.get("link", {})),
        tuple(_measured(f"{source}: model", table) for table in models),
        _number(source, "overhead", tables.get("overhead", 0.0)),
        _text(source, "note", tables.get("note", "")),
    )


def _link(source: str, table: Any) -> Link:
    if not isinstance(table, dict):
        raise PruneFLError(f"{source}={_short(table)}, must be a table: [link]")
    _refuse_unknown(source, table, {"up", "down", "latency", "long_message"})
    rates = {}
    for key in ("up", "down"):
        rates[key] = _number(source, key, table.get(key, math.inf), infinite=True)
        if rates[key] <= 0:
            raise PruneFLError(f"{source}.{key}={table[key]}, must be > 0 bytes a second")
    long = table.get("long_message")
    numbers = isinstance(long, list) and all(isinstance(n, int | float) and 0 < n <= LARGEST for n in long)
    if long is not None and (not numbers or len(long) != 2):
        raise PruneFLError(f"{source}.long_message={_short(long)}, must be [bytes, seconds]")
    point = None if long is None else (int(long[0]), float(long[1]))
    return Link(rates["up"], rates["down"], _number(source, "latency", table.get("latency", 0.0)), point)


def _measured(source: str, table: Any) -> Measured:
    if not isinstance(table, dict):
        raise PruneFLError(f"{source}={_short(table)}, must be a table: [[model]]")
    source = f"{source} {table.get('name', '?')}"
    kinds = typing.get_type_hints(Measured)
    _refuse_unknown(source, table, set(kinds))
    for key in ("name", "batch", "constant", "weights", "positions"):
        if key not in table:
            raise PruneFLError(f"{source}.{key} is missing")
    measured = Measured(**{key: _value(source, key, value, kinds[key]) for key, value in table.items()})
    _check_lengths(source, measured)
    return measured


def _check_lengths(source: str, measured: Measured) -> None:
    """Refuse arrays that do not have one entry per layer, and tables from which no time follows."""
    for field in fields(Measured):
        value = getattr(measured, field.name)
        if isinstance(value, tuple) and value and len(value) != len(measured.weights):
            rule = f"must have {len(measured.weights)}, one for each of weights"
            raise PruneFLError(f"{source}.{field.name} has {len(value)} entries, {rule}")
    sizes = (measured.batch, *measured.weights, *measured.positions)
    if not measured.weights or not measured.positions or min(sizes) < 1:
        raise PruneFLError(f"{source}: batch, weights and positions must be >= 1")
    parts = (measured.importance_per_weight, measured.importance_fixed, measured.importance_dense)
    if any(parts) and not all(parts):
        raise PruneFLError(
            f"{source}: importance_per_weight, importance_fixed and importance_dense belong together"
        )
    if not measured.per_weight and not measured.sparse_step:
        raise PruneFLError(f"{source}: must have per_weight by layer, or sparse_step for the whole")
    if not measured.dense and not measured.dense_step:
        raise PruneFLError(f"{source}: must have dense by layer, or dense_step for the whole")
    for whole in (measured.dense_step, measured.sparse_step):
        if whole and whole < measured.constant:
            raise PruneFLError(
                f"{source}: a whole step of {whole} s, must be >= constant={measured.constant}"
            )


def _value(source: str, key: str, value: Any, kind: Any) -> Any:
    """Return a value of Measured as its declared kind."""
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise PruneFLError(f"{source}.{key}={_short(value)}, must be an array")
        return tuple(_value(source, key, item, typing.get_args(kind)[0]) for item in value)
    if kind is str:
        return _text(source, key, value)
    if kind is int and (not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST):
        raise PruneFLError(f"{source}.{key}={_short(value)}, must be a whole number of at most 2**53")
    number = _number(source, key, value)
    return int(value) if kind is int else number


def _number(source: str, key: str, value: Any, infinite: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PruneFLError(f"{source}.{key}={_short(value)}, must be a number")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise PruneFLError(f"{source}.{key}={_short(value)}, must be at most 2**53")
    if not 0 <= value <= math.inf or (value == math.inf and not infinite):
        raise PruneFLError(
            f"{source}.{key}={_short(value)}, must be >= 0" + ("" if infinite else " and finite")
        )
    return float(value)


def _short(value: Any) -> str:
    """Return a value as it is shown; hexadecimal, which takes any number of digits."""
    shown = hex(value) if isinstance(value, int) and abs(value) > LARGEST else repr(value)
    return shown if len(shown) <= 100 else f"{shown[:100]}..."


def _text(source: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise PruneFLError(f"{source}.{key}={_short(value)}, must be text")
    return value


def _refuse_unknown(source: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise PruneFLError(f"{source}: no such key {key!r}; there are {', '.join(sorted(known))}")
