"""Bytes and seconds of every kind of message by density, beside the paper's formula and the entropy."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from prunefl import wire
from prunefl.core.masks import Mask, Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState
from prunefl.wire.patterns import entropy_bytes

DENSITIES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
KINDS = ("bitmap", "indices", "coded", "change", "values")
CHANGED = 0.05
"""Share of the live weights that a reconfiguration exchanges, in the rows of kind `change`."""

CONV_2 = {
    "0.weight": (32, 1, 5, 5),
    "0.bias": (32,),
    "3.weight": (64, 32, 5, 5),
    "3.bias": (64,),
    "7.weight": (2048, 3136),
    "7.bias": (2048,),
    "9.weight": (62, 2048),
    "9.bias": (62,),
}

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """One measurement; the bytes are those of the whole message, biases included.

    `paper_bytes` is what the paper's format takes for the same purpose: values only while the mask stands, and
    otherwise min(2d, d + 1/32) of the dense size. `entropy_bytes` is N H(d) / 8 for the pattern and the values as
    they are. Seconds are the best of the repeats, on one thread.
    """

    density: float
    kind: str
    precision: str
    num_bytes: int
    paper_bytes: int
    entropy_bytes: int
    encode_seconds: float
    decode_seconds: float


def rows(
    densities: Iterable[float] = DENSITIES, precision: str = "float32", repeats: int = 5, seed: int = 0
) -> Iterator[Row]:
    """Yield the measurements of Conv-2 in turn: at density 1 the kind `dense`, below it all the others."""
    random = np.random.default_rng(seed)
    prunable = [name for name in CONV_2 if name.endswith("weight")]
    template = Template(tuple(CONV_2), tuple(CONV_2.values()), frozenset(prunable))
    for density in densities:
        masks = Masks({name: random.random(CONV_2[name]) < density for name in prunable})
        before = Masks({name: swap(mask, random) for name, mask in masks.items()})
        values = {n: 0.1 * random.standard_normal(shape, np.float32) for n, shape in CONV_2.items()}
        state = SparseState.from_dense(values, masks)
        for kind in KINDS if density < 1 else ("dense",):
            known = {"values": masks, "change": before}.get(kind)
            yield _measure(state, known, template, (density, kind, precision), repeats)


def swap(mask: Mask, random: np.random.Generator) -> Mask:
    """Return a mask of the same density in which 5 % of the live weights are others."""
    before = mask.reshape(-1).copy()
    live, pruned = np.flatnonzero(before), np.flatnonzero(~before)
    count = min(round(CHANGED * live.size), pruned.size)
    before[random.permutation(live)[:count]] = False
    before[random.permutation(pruned)[:count]] = True
    return before.reshape(mask.shape)


def _measure(
    state: SparseState,
    known: Masks | None,
    template: Template,
    labels: tuple[float, str, str],
    repeats: int,
) -> Row:
    density, kind, precision = labels
    held = {} if known is None else {known.digest: known}

    def state_to_send() -> SparseState:
        # while a mask stands its digest is remembered from the round before; a new mask's is part of the work
        return state if kind == "values" else SparseState(state.values, Masks(state.masks))

    def encode(sent: SparseState) -> bytes:
        return wire.pack(sent, known=known, precision=precision, kind=kind)

    encode_seconds, data = _best(state_to_send, encode, repeats)
    decode_seconds, _ = _best(lambda: data, lambda data: wire.unpack(data, template, held), repeats)
    paper, entropy = _bounds(kind, state.masks, known, len(data) - _pattern_bytes(data))
    return Row(density, kind, precision, len(data), paper, entropy, encode_seconds, decode_seconds)


def _pattern_bytes(data: bytes) -> int:
    description = wire.describe(data)
    return description.header_bytes + sum(part.pattern_bytes for part in description.layers)


def _bounds(kind: str, masks: Masks, known: Masks | None, num_value_bytes: int) -> tuple[int, int]:
    """Return the paper's bytes and the entropy's for the same purpose."""
    live, size = sum(masks.counts.values()), masks.size
    rest = 4 * sum(math.prod(shape) for name, shape in CONV_2.items() if name not in masks)
    paper = 4 * live + rest + (0 if kind in ("values", "dense") else min(4 * live, -(-size // 8)))
    entropy = 0.0
    if kind == "change" and known is not None:
        entropy = sum(_change_entropy(masks[name], known[name]) for name in masks)
    elif kind != "values":
        entropy = sum(entropy_bytes(masks.sizes[name], count) for name, count in masks.counts.items())
    return paper, round(entropy) + num_value_bytes


def _change_entropy(mask: Mask, before: Mask) -> float:
    live = int(before.sum())
    removed, added = int((before & ~mask).sum()), int((mask & ~before).sum())
    return entropy_bytes(live, removed) + entropy_bytes(mask.size - live, added)


def _best(
    prepare: Callable[[], Given], work: Callable[[Given], Result], repeats: int
) -> tuple[float, Result]:
    """Return the shortest time that the work took, its preparation not counted, and its result."""
    seconds, result = math.inf, work(prepare())
    for _ in range(repeats):
        given = prepare()
        start = time.perf_counter()
        result = work(given)
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, result
