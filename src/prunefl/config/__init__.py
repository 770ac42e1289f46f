"""A run's config: TOML in, TOML out, and what may differ between runs."""

import dataclasses
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from prunefl.config.sections import Config, FleetSettings
from prunefl.config.settings import changed, nearest, parsed, to_toml
from prunefl.system.errors import PruneFLError

__all__ = [
    "Config",
    "FleetSettings",
    "as_dict",
    "dump",
    "free_settings",
    "from_tables",
    "load",
    "override",
    "read",
    "settled",
    "short_name",
]


def settled(config: Config, clients: int) -> Config:
    """Return the config with the number of clients that the data turned out to have, checked anew."""
    return replace(config, data=replace(config.data, clients=clients))


def read(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, or say what is wrong with it."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise PruneFLError(f"{path}: no such config file") from None
    except IsADirectoryError:
        raise PruneFLError(
            f"{path}: a folder, must be a config file (--resume --out DIR goes on with a run)"
        ) from None
    except (ValueError, RecursionError) as error:
        # not of TOML's own kind: what nests too deeply, or has a number of thousands of digits
        raise PruneFLError(f"{path}: not valid TOML: {error}") from None


def from_tables(tables: dict[str, Any], base: Config | None = None) -> Config:
    """Return the config that the tables describe, over `base` (the defaults)."""
    sections = {field.name: field for field in fields(Config)}
    changes: dict[str, Any] = {}
    base = base or Config()
    for name, table in tables.items():
        if name not in sections:
            raise PruneFLError(f"{name}: no such section{nearest(name, list(sections))}")
        if name == "fleet":
            changes["fleet"] = _fleet(table, base.fleet)
        elif not isinstance(table, dict):
            raise PruneFLError(f"{name}={table!r}, must be a section: [{name}]")
        else:
            changes[name] = changed(name, getattr(base, name), table)
    return replace(base, **changes)


def _fleet(tables: Any, groups: tuple[FleetSettings, ...]) -> tuple[FleetSettings, ...]:
    """Return the groups that the tables describe; one table, as of fleet.bandwidth=1e6, changes every group."""
    if isinstance(tables, dict):
        if not groups:
            raise PruneFLError(
                "fleet: there is no [[fleet]] to change; time.device names the device of all clients"
            )
        return tuple(changed("fleet", group, tables) for group in groups)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PruneFLError("fleet: must be tables, each opened by [[fleet]]")
    return tuple(changed("fleet", FleetSettings(), table) for table in tables)


def short_name(path: str) -> str:
    """Return a setting's name without its section where no other section has one of that name."""
    key = path.partition(".")[2]
    tables = (FleetSettings if field.name == "fleet" else field.default for field in fields(Config))
    return path if sum(hasattr(table, key) for table in tables) > 1 else key


def override(config: Config, assignments: list[str]) -> Config:
    """Return the config with `section.key=value` texts applied; a value is TOML, or else plain text."""
    tables: dict[str, dict[str, Any]] = {}
    for text in assignments:
        path, separator, value = text.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (separator and dot and key):
            raise PruneFLError(f"{text!r}: must look like section.key=value, such as run.rounds=100")
        tables.setdefault(section, {})[key] = parsed(value.strip())
    return from_tables(tables, config)


def load(path: Path | None, assignments: list[str] | None = None) -> Config:
    """Return the checked config of a file with overrides; without a file, the defaults."""
    config = from_tables(read(path)) if path else Config()
    return override(config, assignments or [])


def dump(config: Config, *, comments: bool = False) -> str:
    """Return the config as TOML that `load` reads back, with each setting's meaning if asked."""
    return to_toml(config, comments)


def as_dict(config: Config) -> dict[str, Any]:
    """Return the config as plain tables."""
    return dataclasses.asdict(config)


def free_settings(*purposes: str) -> set[str]:
    """Return the settings, as section.key, that are declared free "to resume" or "to compare"; see `setting`."""
    return {
        f"{section.name}.{entry.name}"
        for section in fields(Config)
        if section.name != "fleet"
        for entry in fields(section.default)  # type: ignore[arg-type]
        if entry.metadata["free"] in purposes
    }
