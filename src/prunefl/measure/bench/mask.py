"""Seconds that a client takes to mask an update for a secure sum, by how many others it masks with."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunefl.privacy import client as half
from prunefl.privacy.fixed_point import NARROW, WIDE, Layout, Segment, encode
from prunefl.privacy.holdings import Member, Secrets
from prunefl.privacy.messages import Plan, Terms, pack_parts, pack_table
from prunefl.privacy.server import Rules, ask_to_mask, parse_shared
from prunefl.privacy.signers import SimulatedKeys, SimulatedSigner

__all__ = ["NARROW", "NEIGHBOURS", "WIDE", "Row", "rows"]

NEIGHBOURS = (2, 4, 8, 10, 16, 20)
RUN = "bench"


@dataclass(frozen=True)
class Row:
    """One measurement, the best of the repeats, on one thread.

    Attributes:
        neighbours: clients with which it masks; a mask of its own comes on top.
        num_bytes: of the masked vector.
        share_seconds: to make keys and shares for the neighbours, before it trains.
        encode_seconds: from float32 to whole numbers.
        mask_seconds: from whole numbers to the masked ones, key agreements included.
    """

    neighbours: int
    values: int
    bits: int
    num_bytes: int
    share_seconds: float
    encode_seconds: float
    mask_seconds: float


def rows(
    values: int = 1_000_000, neighbours: Iterable[int] = NEIGHBOURS, bits: int = WIDE, repeats: int = 5
) -> Iterator[Row]:
    """Yield a row for each number of neighbours."""
    random = np.random.default_rng(0)
    vector = {"values": random.normal(0, 0.01, values).astype(np.float32)}
    segments = (Segment("values", values, 8.0, bits),)
    for count in neighbours:
        yield min(
            (_measure(count, vector["values"], segments) for _ in range(repeats)),
            key=lambda row: row.encode_seconds + row.mask_seconds,
        )


def _measure(neighbours: int, values: NDArray[np.float32], segments: tuple[Segment]) -> Row:
    """Return what client 0 takes among so many others, of whom only the keys are needed."""
    cohort, keys = tuple(range(neighbours + 1)), SimulatedKeys()
    members = {c: Member(c, RUN, 2 / 3, 0, SimulatedSigner(c, keys)) for c in cohort}
    secrets, shown = {}, {}
    for client, member in members.items():
        secrets[client], shown[client] = half.introduce(Secrets(), member, 1)
    plan = Plan(RUN, 1, 1, "round 1", cohort)
    asked, sent, took = pack_parts(plan.pack(), pack_table(shown)), {}, 0.0
    for client in reversed(cohort):
        began = time.perf_counter()
        secrets[client], reply = half.share(secrets[client], members[client], asked)
        took = time.perf_counter() - began
        sent[client] = parse_shared(reply)
    terms = Terms(cohort, 1, segments)
    message = ask_to_mask(0, plan, Rules(2 / 3, 0), terms, sent)
    layout = Layout(segments, len(cohort))
    began = time.perf_counter()
    words = encode({"values": values}, 1.0, layout)
    encoded = time.perf_counter()
    data = half.mask(half.prepare_mask(secrets[0], members[0], message), words)
    ended = time.perf_counter()
    bits = segments[0].bits
    return Row(neighbours, values.size, bits, len(data), took, encoded - began, ended - encoded)
