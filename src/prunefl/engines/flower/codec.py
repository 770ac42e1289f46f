"""Orders and replies as envelopes, and back. What arrives is checked here before the core sees it."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from prunefl.engines.flower.envelope import Envelope, EnvelopeError
from prunefl.rounds.messages import Ask, InitialPlan, Order, Reply, Segment

T = TypeVar("T")
LARGEST_INT = 1 << 53
"""Beyond it a float does not know every whole number."""


def encode_order(order: Order, run: str, config: str = "") -> Envelope:
    """Return the order as an envelope.

    Args:
        run: name of the run, by which the worker sees whether it is set up for this run.
        config: the config itself as TOML, for a worker that is not.
    """
    values = {
        "round": order.round,
        "learning_rate": order.learning_rate,
        "ask": dataclasses.asdict(order.ask),
        "initial": dataclasses.asdict(order.initial) if order.initial else None,
        "time_model": order.time_model,
        "run": run,
        "config": config,
    }
    return Envelope("order", values, (order.model,))


def decode_order(envelope: Envelope) -> Order:
    """Return the order that an envelope holds."""
    _check_kind(envelope, "order", 1)
    values, plan = envelope.values, envelope.values.get("initial")
    return Order(
        round=read_number(values, "round", int),
        learning_rate=read_number(values, "learning_rate", float),
        model=envelope.parts[0],
        ask=_read_dataclass(Ask, values.get("ask")),
        initial=_read_dataclass(InitialPlan, plan) if plan is not None else None,
        time_model=read_text(values, "time_model"),
    )


def encode_reply(reply: Reply) -> Envelope:
    """Return the reply as an envelope."""
    values: dict[str, Any] = {
        name: getattr(reply, name)
        for name in ("client", "round", "num_samples", "loss", "start_loss", "probe_loss", "seconds")
    }
    values["segments"] = [
        {**dataclasses.asdict(segment), "live": dict(segment.live)} for segment in reply.segments
    ]
    return Envelope("reply", values, (reply.model, reply.statistic))


def decode_reply(envelope: Envelope, client: int) -> Reply:
    """Return the reply that an envelope holds, from the client whose key brought it, whatever it says itself."""
    _check_kind(envelope, "reply", 2)
    values = envelope.values
    segments = values.get("segments", [])
    if not isinstance(segments, list) or len(segments) > 10_000:
        raise EnvelopeError("segments: must be a list")
    return Reply(
        client=client,
        round=read_number(values, "round", int),
        num_samples=read_number(values, "num_samples", int),
        loss=read_number(values, "loss", float),
        model=envelope.parts[0],
        statistic=envelope.parts[1],
        start_loss=read_number(values, "start_loss", float),
        probe_loss=read_number(values, "probe_loss", float),
        seconds=read_number(values, "seconds", float),
        segments=tuple(_read_segment(entry) for entry in segments),
    )


def read_number(values: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a finite number of an envelope; EnvelopeError for anything else."""
    value = values.get(name)
    largest = LARGEST_INT if isinstance(value, int) else sys.float_info.max
    # NaN is not smaller than anything either
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= largest:
        raise EnvelopeError(f"{name}={repr(value)[:100]}, must be a number")
    if kind is int and not isinstance(value, int):
        raise EnvelopeError(f"{name}={value!r}, must be a whole number")
    return kind(value)  # type: ignore[call-arg]


def read_text(values: Mapping[str, Any], name: str) -> str:
    """Return a text of an envelope; EnvelopeError for anything else."""
    value = values.get(name, "")
    if not isinstance(value, str):
        raise EnvelopeError(f"{name}: must be text")
    return value


def _check_kind(envelope: Envelope, kind: str, parts: int) -> None:
    if envelope.kind != kind or len(envelope.parts) != parts:
        raise EnvelopeError(
            f"{envelope.kind!r} with {len(envelope.parts)} parts, must be {kind!r} with {parts}"
        )


def _read_segment(entry: Any) -> Segment:
    if not isinstance(entry, dict) or not isinstance(entry.get("live"), dict):
        raise EnvelopeError("segment: must have live counts")
    live = {str(name): read_number(entry["live"], name, int) for name in entry["live"]}
    counts = {name: read_number(entry, name, int) for name in ("passes", "steps", "full_steps")}
    return Segment(
        live=live,
        accuracy=read_number(entry, "accuracy", float),
        loss=read_number(entry, "loss", float),
        **counts,
    )


def _read_dataclass(kind: type[T], entry: Any) -> T:
    """Return a dataclass of numbers and texts from a dict with exactly its fields."""
    hints = get_type_hints(kind)
    if not isinstance(entry, dict) or set(entry) != set(hints):
        raise EnvelopeError(
            f"{kind.__name__}: must have {', '.join(hints)}; are both sides of the same version?"
        )
    for name, value in entry.items():
        if not isinstance(value, hints[name]) and not (hints[name] is float and isinstance(value, int)):
            raise EnvelopeError(f"{kind.__name__}.{name}={value!r}, must be {hints[name].__name__}")
    return kind(**entry)
