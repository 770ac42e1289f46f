"""Orders and replies as letters, and back. What arrives is checked here before the core sees it."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from prunefl.engines.flower.letters import Letter, LetterError
from prunefl.rounds.messages import Ask, InitialPlan, Order, Reply, Segment

T = TypeVar("T")
LARGEST_INT = 1 << 53
"""Beyond it a float does not know every whole number."""


def order_letter(order: Order, run: str, config: str = "") -> Letter:
    """Return the order as a letter.

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
    return Letter("order", values, (order.model,))


def to_order(letter: Letter) -> Order:
    """Return the order that a letter holds."""
    _expect(letter, "order", 1)
    values, plan = letter.values, letter.values.get("initial")
    return Order(
        round=number(values, "round", int),
        learning_rate=number(values, "learning_rate", float),
        model=letter.parts[0],
        ask=_plain(Ask, values.get("ask")),
        initial=_plain(InitialPlan, plan) if plan is not None else None,
        time_model=text(values, "time_model"),
    )


def reply_letter(reply: Reply) -> Letter:
    """Return the reply as a letter."""
    values: dict[str, Any] = {
        name: getattr(reply, name)
        for name in ("client", "round", "num_samples", "loss", "start_loss", "probe_loss", "seconds")
    }
    values["segments"] = [
        {**dataclasses.asdict(segment), "live": dict(segment.live)} for segment in reply.segments
    ]
    return Letter("reply", values, (reply.model, reply.statistic))


def to_reply(letter: Letter, client: int) -> Reply:
    """Return the reply that a letter holds, from the client whose key brought it, whatever it says itself."""
    _expect(letter, "reply", 2)
    values = letter.values
    segments = values.get("segments", [])
    if not isinstance(segments, list) or len(segments) > 10_000:
        raise LetterError("segments: must be a list")
    return Reply(
        client=client,
        round=number(values, "round", int),
        num_samples=number(values, "num_samples", int),
        loss=number(values, "loss", float),
        model=letter.parts[0],
        statistic=letter.parts[1],
        start_loss=number(values, "start_loss", float),
        probe_loss=number(values, "probe_loss", float),
        seconds=number(values, "seconds", float),
        segments=tuple(_segment(entry) for entry in segments),
    )


def number(values: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a finite number of a letter; LetterError for anything else."""
    value = values.get(name)
    largest = LARGEST_INT if isinstance(value, int) else sys.float_info.max
    # NaN is not smaller than anything either
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= largest:
        raise LetterError(f"{name}={repr(value)[:100]}, must be a number")
    if kind is int and not isinstance(value, int):
        raise LetterError(f"{name}={value!r}, must be a whole number")
    return kind(value)  # type: ignore[call-arg]


def text(values: Mapping[str, Any], name: str) -> str:
    """Return a text of a letter; LetterError for anything else."""
    value = values.get(name, "")
    if not isinstance(value, str):
        raise LetterError(f"{name}: must be text")
    return value


def _expect(letter: Letter, kind: str, parts: int) -> None:
    if letter.kind != kind or len(letter.parts) != parts:
        raise LetterError(f"{letter.kind!r} with {len(letter.parts)} parts, must be {kind!r} with {parts}")


def _segment(entry: Any) -> Segment:
    if not isinstance(entry, dict) or not isinstance(entry.get("live"), dict):
        raise LetterError("segment: must have live counts")
    live = {str(name): number(entry["live"], name, int) for name in entry["live"]}
    counts = {name: number(entry, name, int) for name in ("passes", "steps", "full_steps")}
    return Segment(
        live=live, accuracy=number(entry, "accuracy", float), loss=number(entry, "loss", float), **counts
    )


def _plain(kind: type[T], entry: Any) -> T:
    """Return a dataclass of numbers and texts from a dict with exactly its fields."""
    hints = get_type_hints(kind)
    if not isinstance(entry, dict) or set(entry) != set(hints):
        raise LetterError(
            f"{kind.__name__}: must have {', '.join(hints)}; are both sides of the same version?"
        )
    for name, value in entry.items():
        if not isinstance(value, hints[name]) and not (hints[name] is float and isinstance(value, int)):
            raise LetterError(f"{kind.__name__}.{name}={value!r}, must be {hints[name].__name__}")
    return kind(**entry)
