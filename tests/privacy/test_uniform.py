"""One masked vector says nothing: by the usual tests it is uniform, and the tests would notice if it were not."""

import math

import numpy as np
import pytest

from prunefl.privacy.fixed_point import Segment, encode
from secure_federation import Federation

SIZE = 200_000
CLIENTS = range(4)


def vector(kind: str, rng: np.random.Generator) -> np.ndarray:
    return {
        "zeros": lambda: np.zeros(SIZE),
        "equal": lambda: np.full(SIZE, 3.5),
        "normal": lambda: rng.normal(0, 0.05, SIZE),
        "a slope": lambda: np.linspace(-4, 4, SIZE),
    }[kind]()


def masked(values: np.ndarray, bits: int) -> np.ndarray:
    federation = Federation(CLIENTS, segments=(Segment("values", SIZE, 4.0, bits),))
    federation.introduce()
    plan = federation.plan()
    sent = federation.share(plan, CLIENTS)
    data = federation.mask(1, plan, federation.terms(sent), sent, values)
    return np.frombuffer(data, np.uint32 if bits == 32 else np.uint16)


def suspicions(words: np.ndarray) -> dict[str, float]:
    """Return how many standard deviations each figure is from that of uniform words."""
    data = words.view(np.uint8)
    count = np.bincount(data, minlength=256)
    chi = float(((count - data.size / 256) ** 2).sum() / (data.size / 256))
    bits = np.unpackbits(data)
    share = words.astype(np.float64) / float(np.iinfo(words.dtype).max)
    pairs = share - 0.5
    neighbours = float((pairs[1:] * pairs[:-1]).mean()) * 12
    planes = np.unpackbits(data.reshape(words.size, -1), axis=1).mean(axis=0)
    return {
        "bytes": (chi - 255) / math.sqrt(2 * 255),
        "ones": (float(bits.mean()) - 0.5) * 2 * math.sqrt(bits.size),
        "mean": float(pairs.mean()) * math.sqrt(12 * words.size),
        "neighbours": neighbours * math.sqrt(words.size - 1),
        "planes": float(np.abs(planes - 0.5).max()) * 2 * math.sqrt(words.size),
    }


LIMIT = 6.0
"""Standard deviations: chance passes it in one test of some 10^8."""


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("kind", ["zeros", "equal", "normal", "a slope"])
def test_a_masked_vector_is_uniform_whatever_is_under_the_mask(kind: str, bits: int, rng) -> None:
    found = suspicions(masked(vector(kind, rng), bits))
    assert max(map(abs, found.values())) < LIMIT, found


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("kind", ["zeros", "equal", "normal", "a slope"])
def test_the_same_vector_without_a_mask_is_noticed(kind: str, bits: int, rng) -> None:
    federation = Federation(CLIENTS, segments=(Segment("values", SIZE, 4.0, bits),))
    plan = federation.plan()
    layout = federation.terms({}).layout(plan)
    words = encode({"values": vector(kind, rng)}, 1.0, layout)
    found = suspicions(words.wide if bits == 32 else words.narrow)
    assert max(map(abs, found.values())) > 10 * LIMIT, found


def test_a_mask_that_lacks_one_bit_or_repeats_is_noticed(rng) -> None:
    words = rng.integers(0, 2**32, SIZE, np.uint32)
    assert max(map(abs, suspicions(words).values())) < LIMIT
    biased = words & ~np.uint32(1 << 17) | (rng.random(SIZE) < 0.48).astype(np.uint32) << np.uint32(17)
    assert abs(suspicions(biased)["planes"]) > LIMIT
    doubled = np.repeat(words[: SIZE // 2], 2)
    assert abs(suspicions(doubled)["neighbours"]) > LIMIT


def test_the_same_vector_masked_twice_has_nothing_in_common(rng) -> None:
    values = vector("normal", rng)
    one, other = masked(values, 32), masked(values, 32)
    assert max(map(abs, suspicions(one - other).values())) < LIMIT
