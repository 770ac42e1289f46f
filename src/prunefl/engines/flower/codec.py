"""Orders and replies as envelopes, and back. What arrives is checked here before the core sees it."""

import re
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from prunefl.engines.flower.envelope import Envelope, EnvelopeError
from prunefl.methods.base import Method, Numbers
from prunefl.rounds.messages import Order, Reply, describe_work, parse_work

T = TypeVar("T")
N = TypeVar("N", int, float)
LARGEST_INT = 1 << 53
"""Beyond it a float does not know every whole number."""

MOST_NUMBERS = 10_000
MOST_ROUNDS = 9_999_999
"""A client's files name a round by seven digits."""

MOST_RATE = 1e6
RUN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def encode_order(order: Order, run: str, config: str = "", plan: str = "") -> Envelope:
    """Return the order as an envelope.

    Args:
        run: name of the run, by which the worker sees whether it is set up for this run.
        config: the config itself as TOML, for a worker that is not; and the network's `plan`, if it has one.
    """
    values = {
        "round": order.round,
        "learning_rate": order.learning_rate,
        "clip": order.clip,
        "work": describe_work(order.work),
        "run": run,
        "config": config,
        "plan": plan,
    }
    if not order.serial:
        return Envelope("order", values, (order.model,))
    return Envelope("order", values | {"serial": order.serial}, (order.model, order.secure))


def decode_order(envelope: Envelope, method: Method) -> Order:
    """Return the order that an envelope holds, with work that the method knows."""
    serial = read_number(envelope.values, "serial", int) if "serial" in envelope.values else 0
    _check_kind(envelope, "order", 2 if serial else 1)
    try:
        work = parse_work(method, envelope.values.get("work"))
    except ValueError as error:
        raise EnvelopeError(str(error)) from None
    return Order(
        round=_check_range("round", read_number(envelope.values, "round", int), 0, MOST_ROUNDS),
        learning_rate=_check_range(
            "learning_rate", read_number(envelope.values, "learning_rate", float), 0.0, MOST_RATE
        ),
        model=envelope.parts[0],
        work=work,
        serial=serial,
        secure=envelope.parts[1] if serial else b"",
        clip=_check_range("clip", read_number(envelope.values, "clip", float), 0.0, sys.float_info.max),
    )


def _check_range(name: str, value: N, low: N, high: N) -> N:
    if not low <= value <= high:
        raise EnvelopeError(f"{name}={value}, must be between {low} and {high}")
    return value


def encode_reply(reply: Reply) -> Envelope:
    """Return the reply as an envelope."""
    names = ("client", "round", "num_samples", "loss", "numbers", "seconds")
    parts = (reply.model, reply.statistic, reply.scores)
    # a part more only where there is one
    return Envelope(
        "reply", {n: getattr(reply, n) for n in names}, (*parts, reply.secure)[: 3 + bool(reply.secure)]
    )


def decode_reply(envelope: Envelope, client: int) -> Reply:
    """Return the reply that an envelope holds, from the client whose key brought it, whatever it says itself."""
    _check_kind(envelope, "reply", 4 if len(envelope.parts) == 4 else 3)
    values = envelope.values
    return Reply(
        client=client,
        round=read_number(values, "round", int),
        num_samples=read_number(values, "num_samples", int),
        loss=read_number(values, "loss", float),
        model=envelope.parts[0],
        statistic=envelope.parts[1],
        numbers=_read_numbers(values.get("numbers")),
        seconds=read_number(values, "seconds", float),
        scores=envelope.parts[2],
        secure=envelope.parts[3] if len(envelope.parts) == 4 else b"",
    )


def _read_numbers(entry: Any) -> Numbers:
    """Return what a method's client half reported: finite numbers and lists of them, by name."""
    if not isinstance(entry, dict) or len(entry) > MOST_NUMBERS:
        raise EnvelopeError("numbers: must be a table")
    found: dict[str, float | list[float]] = {}
    for name, value in entry.items():
        if not isinstance(value, list):
            found[name] = _check_number(name, value)
        elif len(value) > MOST_NUMBERS:
            raise EnvelopeError(f"{name[:100]}: {len(value)} numbers, must be <= {MOST_NUMBERS}")
        else:
            found[name] = [_check_number(name, item) for item in value]
    return found


def read_number(values: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a finite number of an envelope; EnvelopeError for anything else."""
    value = _check_number(name, values.get(name))
    if kind is int and not isinstance(value, int):
        raise EnvelopeError(f"{name}={value!r}, must be a whole number")
    return kind(value)  # type: ignore[call-arg]


def _check_number(name: str, value: Any) -> float:
    largest = LARGEST_INT if isinstance(value, int) else sys.float_info.max
    # NaN is not smaller than anything either
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= largest:
        raise EnvelopeError(f"{name[:100]}={repr(value)[:100]}, must be a number")
    return value


def read_counts(values: Mapping[str, Any], total: int) -> tuple[int, ...]:
    """Return how many samples of each class a client tells of, () if it does not; checked against its total."""
    counts = values.get("by_class") or []
    if not isinstance(counts, list) or len(counts) > MOST_NUMBERS:
        raise EnvelopeError("by_class: must be a list of numbers")
    found = tuple(read_number({"by_class": count}, "by_class", int) for count in counts)
    if found and (min(found) < 0 or sum(found) != total):
        raise EnvelopeError(f"its samples by class come to {sum(found)}, but it has {total}")
    return found


def read_text(values: Mapping[str, Any], name: str) -> str:
    """Return a text of an envelope; EnvelopeError for anything else."""
    value = values.get(name, "")
    if not isinstance(value, str):
        raise EnvelopeError(f"{name}: must be text")
    return value


def read_run(values: Mapping[str, Any]) -> str:
    """Return the run's name, which is shown and written down: nothing but letters, digits and dashes."""
    name = read_text(values, "run")
    if not RUN_NAME.fullmatch(name):
        raise EnvelopeError(f"run={name[:80]!r}, must be letters, digits and dashes")
    return name


def _check_kind(envelope: Envelope, kind: str, parts: int) -> None:
    if envelope.kind != kind or len(envelope.parts) != parts:
        raise EnvelopeError(
            f"{envelope.kind!r} with {len(envelope.parts)} parts, must be {kind!r} with {parts}"
        )
