"""How a single setting is declared, checked and written: the small language that sections.py speaks."""

import difflib
import tomllib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from prunefl.system.errors import PruneFLError
from prunefl.system.suggest import did_you_mean


@dataclass(frozen=True)
class Rule:
    """A test of a value and the words that say it."""

    holds: Callable[[Any], bool]
    text: str
    options: tuple[str, ...] = ()


def at_least(bound: float) -> Rule:
    return Rule(lambda value: value >= bound, f"must be >= {bound}")


def positive() -> Rule:
    return Rule(lambda value: value > 0, "must be > 0")


def between(low: float, high: float) -> Rule:
    return Rule(lambda value: low <= value <= high, f"must be between {low} and {high}")


def share() -> Rule:
    return between(0.0, 1.0)


def below_one() -> Rule:
    return Rule(lambda value: 0 <= value < 1, "must be >= 0 and < 1")


def one_of(*options: str) -> Rule:
    return Rule(lambda value: value in options, f"must be one of {', '.join(options)}", options)


def own_or_one_of(*options: str) -> Rule:
    text = f"must be one of {', '.join(options)} or package.module:function"
    return Rule(lambda value: value in options or ":" in value, text)


def window() -> Rule:
    return Rule(
        lambda value: value == "all" if isinstance(value, str) else value >= 1,
        'must be "all" or a number of rounds >= 1',
    )


def distinct() -> Rule:
    return Rule(lambda values: len(set(values)) == len(values) and all(values), "must be names that differ")


def client_numbers() -> Rule:
    return Rule(
        lambda values: len(set(values)) == len(values) and all(value >= 0 for value in values),
        "must be numbers of clients, from 0, each once",
    )


def sides() -> Rule:
    return Rule(lambda values: all(value >= 1 for value in values), "must be whole numbers >= 1")


_ANY = Rule(lambda value: True, "")


def setting(default: Any, meaning: str, rule: Rule = _ANY, *, free: str = "") -> Any:
    """Return a dataclass field with its meaning and rule.

    Args:
        free: "to resume": changes no number of a run, so that it can be resumed with another value. "to compare":
            no more than rounding, or what sets runs apart that are compared; a report may mix them.
    """
    return field(default=default, metadata={"help": meaning, "rule": rule, "free": free})


def nearest(name: str, known: Sequence[str], section: str = "") -> str:
    """Return '; did you mean ...?' for the likeliest name, or the list of all."""
    prefix = f"{section}." if section else ""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return f"; there are {', '.join(prefix + entry for entry in known)}"


def typed(path: str, value: Any, kind: Any, rule: Rule) -> Any:
    """Return the value as its kind, or say what it must be."""
    converted = _convert(value, kind)
    if converted is None:
        raise PruneFLError(f"{path}={value!r}, must be {_spoken(kind)}")
    if isinstance(converted, float) and converted != converted:
        raise PruneFLError(f"{path}={value!r}, must be a number")
    if not rule.holds(converted):
        raise PruneFLError(f"{path}={value!r}, {rule.text}{did_you_mean(str(value), rule.options)}")
    return converted


def _convert(value: Any, kind: Any) -> Any:
    """Return the value as `kind`, or None where it is not one. True is not a number here."""
    if isinstance(kind, types.UnionType):
        return next((made for option in kind.__args__ if (made := _convert(value, option)) is not None), None)
    if typing.get_origin(kind) is tuple:
        item_kind = typing.get_args(kind)[0]
        fits = isinstance(value, list | tuple) and all(
            _convert(item, item_kind) is not None for item in value
        )
        return tuple(value) if fits else None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    exact = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return value if exact else None


def _spoken(kind: Any) -> str:
    if isinstance(kind, types.UnionType):
        return " or ".join(_spoken(option) for option in kind.__args__)
    if typing.get_origin(kind) is tuple:
        return {
            str: 'a list of texts, such as ["a", "b"]',
            int: "a list of whole numbers, such as [3, 32, 32]",
            float: "a list of numbers, such as [1.0, 2.5]",
        }[typing.get_args(kind)[0]]
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[kind]


def changed(name: str, current: Any, table: dict[str, Any]) -> Any:
    """Return a section with what a table gives changed; refuses unknown settings and wrong values."""
    hints = typing.get_type_hints(type(current))
    known = {field.name: field for field in fields(current)}
    values = {}
    for key, value in table.items():
        if key not in known:
            raise PruneFLError(f"{name}.{key}: no such setting{nearest(key, list(known), name)}")
        values[key] = typed(f"{name}.{key}", value, hints[key], known[key].metadata["rule"])
    return replace(current, **values)


def parsed(text: str) -> Any:
    """Return a value given as TOML, or else the plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a config as section.key -> value."""
    values: dict[str, Any] = {}
    for section, table in config.items():
        if isinstance(table, Mapping):
            values |= {f"{section}.{key}": value for key, value in table.items()}
        else:
            values[section] = table
    return values


def to_toml(config: Any, comments: bool) -> str:
    """Return a dataclass of sections as TOML text."""
    blocks = []
    for section in fields(config):
        table = getattr(config, section.name)
        if isinstance(table, tuple):
            blocks += [_table(f"[[{section.name}]]", entry, comments) for entry in table]
        else:
            blocks.append(_table(f"[{section.name}]", table, comments))
    return "\n".join(blocks)


def _table(title: str, table: Any, comments: bool) -> str:
    lines = [f"{title}  # {type(table).__doc__}" if comments else title]
    for entry in fields(table):
        line = f"{entry.name} = {_literal(getattr(table, entry.name))}"
        lines.append(f"{line:<36} # {entry.metadata['help']}" if comments else line)
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return repr(value)
