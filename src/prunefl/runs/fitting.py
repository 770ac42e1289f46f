"""Whether a checkpoint is one of this run: what says something else is refused before anybody goes on from it."""

import math
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import numpy as np

from prunefl.core.network import Template
from prunefl.core.state import SparseState
from prunefl.rounds.server import ServerState

BYTES_A_VALUE, MORE_BYTES = 256, 256 << 20
"""No checkpoint has more: sixty-four float32 for each value of the model, for memory and moments, and some JSON."""


def limit_bytes(template: Template) -> int:
    """Return the size beyond which a file is no checkpoint of this model."""
    return BYTES_A_VALUE * sum(math.prod(shape) for shape in template.shapes) + MORE_BYTES


def refuse_misfit(state: ServerState, extra: Mapping[str, Any], template: Template) -> None:
    """Raise ValueError or TypeError, saying what is wrong, for a checkpoint of another model or of none."""
    _check_values(state.sparse, template)
    for masks in state.past.values():
        _equal("masks", masks.shapes, dict(template.layers))
    if type(state.round) is not int or not -1 <= state.round < 10**7:
        raise ValueError(f"round={state.round!r}, must be a whole number of at least -1")
    for name, number in zip(
        ("seconds", "bytes_up", "bytes_down", "flops"), astuple(state.totals), strict=True
    ):
        _check_number(f"totals.{name}", number)
    _check_number("usual_change", state.usual_change)
    for value in state.opposition.values():
        _check_number("opposition", value, least=-1.0)
    for number in state.ranges.values():
        _check_number("ranges", number)
    _check_number("wall", extra["wall"])
    if type(extra["record_bytes"]) is not int or extra["record_bytes"] < 0:
        raise ValueError(f"record_bytes={extra['record_bytes']!r}, must be a whole number")
    if not isinstance(extra["engine"], dict):
        raise TypeError("engine, must be a table")
    for name in ("live", "measured"):
        for number in (extra[name] or {}).values():
            _check_number(name, number)


def _check_values(sparse: SparseState, template: Template) -> None:
    _equal("values", set(sparse.values), set(template.names))
    for name, value in sparse.values.items():
        mask = sparse.masks.get(name)
        expected = template.shape_of[name] if mask is None else (sparse.masks.counts[name],)
        if value.dtype != np.float32 or value.shape != expected:
            raise ValueError(f"{name}: {value.dtype} of shape {value.shape}, must be float32 of {expected}")


def _equal(what: str, given: object, expected: object) -> None:
    if given != expected:
        raise ValueError(f"its {what} are those of another model")


def _check_number(name: str, value: Any, least: float = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise ValueError(f"{name}={value!r}, must be a number of at least {least:g}")
