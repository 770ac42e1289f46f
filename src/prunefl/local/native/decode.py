"""From text to a plan. The text may come from a server that is not trusted: whatever is wrong is one line."""

import json
import math
from dataclasses import fields
from typing import Any, NoReturn, get_type_hints

from prunefl.core.masks import Shape
from prunefl.core.network import Template
from prunefl.local.native.encode import VERSION
from prunefl.local.native.operations import KINDS, Operation, Pair, Sides
from prunefl.local.native.plan import MAX_NODES, Node, Plan, PlanError

MAX_BYTES = 1 << 19
MAX_NAME = 500
TENSOR_KINDS = ("pruned", "trained", "buffer")


def decode_plan(text: str) -> Plan:
    """Return the plan that a text describes; PlanError, in one line, if it cannot be run."""
    if len(text) > MAX_BYTES:
        raise PlanError(f"plan: {len(text):,} characters, must be at most {MAX_BYTES:,}")
    try:
        given = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"plan: is not JSON: {str(error)[:80]}") from None
    if not isinstance(given, dict):
        raise PlanError("plan: must be a table")
    if given.get("plan") != VERSION:
        raise PlanError(f"plan: of version {repr(given.get('plan'))[:20]}, this is prunefl's plan {VERSION}")
    if given.keys() != {"plan", "input", "tensors", "operations"}:
        raise PlanError("plan: must have input, tensors and operations")
    template = _template(_entries(given["tensors"], "tensors"))
    nodes = tuple(
        _node(number, entry) for number, entry in enumerate(_entries(given["operations"], "operations"))
    )
    return Plan(_shape(given["input"], "input"), nodes, template)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _entries(given: Any, what: str) -> list[Any]:
    if not isinstance(given, list) or len(given) > MAX_NODES:
        raise PlanError(f"plan: {what} must be a list of at most {MAX_NODES:,}")
    return given


def _shape(given: Any, what: str) -> Shape:
    if not isinstance(given, list) or len(given) > 4 or any(type(side) is not int for side in given):
        raise PlanError(f"plan: {what} must be a list of at most 4 whole numbers")
    return tuple(given)


def _template(entries: list[Any]) -> Template:
    names, shapes, kinds = [], [], []
    for number, entry in enumerate(entries):
        if not (
            isinstance(entry, list) and len(entry) == 3 and entry[2] in TENSOR_KINDS and _is_name(entry[0])
        ):
            raise PlanError(f"plan: tensor {number} must be a name, a shape and {', '.join(TENSOR_KINDS)}")
        names.append(entry[0])
        shapes.append(_shape(entry[1], f"the shape of tensor {number}"))
        kinds.append(entry[2])
    of = {kind: frozenset(n for n, k in zip(names, kinds, strict=True) if k == kind) for kind in TENSOR_KINDS}
    return Template(tuple(names), tuple(shapes), of["pruned"], of["buffer"])


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and len(given) <= MAX_NAME and given.isprintable()


def _node(number: int, entry: Any) -> Node:
    kind = KINDS.get(str(entry.get("do"))) if isinstance(entry, dict) else None
    if kind is None:
        raise PlanError(f"plan: operation {number} is not known here")
    inputs = entry.get("of")
    if (
        not isinstance(inputs, list)
        or len(inputs) > MAX_NODES
        or any(type(value) is not int for value in inputs)
    ):
        raise PlanError(f"plan: operation {number} must say which values it reads")
    wanted = FIELDS[kind]
    if entry.keys() != {"do", "of", *wanted}:
        raise PlanError(f"plan: operation {number} must have {', '.join(('do', 'of', *wanted))}")
    values = {name: _value(entry[name], of, f"operation {number}: {name}") for name, of in wanted.items()}
    return Node(kind(**values), tuple(inputs))


def _fields_of(kind: type[Operation]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


FIELDS = {kind: _fields_of(kind) for kind in KINDS.values()}
"""Operation -> its fields with their types."""


def _value(given: Any, of: Any, what: str) -> Any:
    """Return a field's value, of exactly its type."""
    if of in (Pair, Sides):
        length = 2 if of == Pair else 4
        if isinstance(given, list) and len(given) == length and all(type(number) is int for number in given):
            return tuple(given)
    elif of is float:
        if type(given) in (int, float) and abs(given) < 1e30 and math.isfinite(given):
            return float(given)
    elif type(given) is of and (of is not str or _is_name(given)):
        return given
    raise PlanError(f"plan: {what} is not what it must be")
