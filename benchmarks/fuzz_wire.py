"""Feed mutated messages to the receiver: `python benchmarks/fuzz_wire.py --inputs 1000000 --seed 1`.

An input fails if it ends in anything but a result or a WireError, takes ten seconds (the alarm then ends the
process), needs memory beyond a fixed allowance, or is accepted although no sender made it. Half of the inputs
get a right checksum, as from somebody with bad intent: these may be accepted, but only with finite values and
under the masks that they name.
"""

import argparse
import random
import resource
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunefl import _coding, wire
from prunefl.core.masks import Masks
from prunefl.core.network import Template
from prunefl.core.state import SparseState

SECONDS_PER_INPUT = 10
ALLOWANCE_BYTES = 16 << 20
SHAPES = {
    "0.bias": (5,),
    "0.weight": (5, 2, 3, 3),
    "1.running_mean": (5,),
    "2.weight": (40, 70),
    "3.weight": (),
    "4.weight": (0, 3),
}
PRUNABLE = frozenset({"0.weight", "2.weight", "3.weight", "4.weight"})
TEMPLATE = Template(tuple(SHAPES), tuple(SHAPES.values()), PRUNABLE, frozenset({"1.running_mean"}))
EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 2**30 - 1, 2**30, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1)


@dataclass(frozen=True)
class Corpus:
    """Real messages, and the masks that the receiver knows."""

    messages: tuple[bytes, ...]
    known: dict[bytes, Masks]


def make_corpus(seed: int) -> Corpus:
    """Return one message of every kind and precision, at several densities."""
    rng = np.random.default_rng(seed)

    def masks_of(density: float) -> Masks:
        return Masks(
            {name: np.asarray(rng.random(TEMPLATE.layers[name]) < density) for name in TEMPLATE.layers}
        )

    weights = {name: np.asarray(rng.standard_normal(shape), np.float32) for name, shape in SHAPES.items()}
    importance, old = {name: weights[name] ** 2 for name in PRUNABLE}, masks_of(0.3)
    messages = [wire.pack_importance(importance, precision) for precision in ("float32", "log8")]
    for density in (0.0, 0.02, 0.3, 0.6, 1.0):
        state = SparseState.from_dense(weights, masks_of(density))
        messages += [wire.pack(state, known=old, kind=k) for k in ("bitmap", "indices", "coded", "change")]
        messages += [wire.pack(state, precision=p) for p in ("bfloat16", "float16", "int8")]
    messages.append(wire.pack(SparseState.from_dense(weights, old), known=old))
    return Corpus(tuple(messages), {old.digest: old})


def flip_bits(rng: random.Random, data: bytearray, _: Corpus) -> None:
    for _number in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_bytes(rng: random.Random, data: bytearray, _: Corpus) -> None:
    at, length = rng.randrange(len(data)), rng.randint(1, 16)
    data[at : at + length] = rng.randbytes(length)


def damage_pattern(rng: random.Random, data: bytearray, _: Corpus) -> None:
    for _number in range(rng.choice((1, 2, 4))):
        at = rng.randrange(88, 88 + 300)  # behind the layer words, where most patterns are
        if at < len(data):
            data[at] = rng.randrange(256)


def set_number(rng: random.Random, data: bytearray, _: Corpus) -> None:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(0, max(1, min(len(data), 200) - width))
    number = (rng.choice(EXTREMES) + rng.choice((0, 0, 1, -1))) % (1 << 8 * width)
    data[at : at + width] = number.to_bytes(width, "little")


def set_layer(rng: random.Random, data: bytearray, _: Corpus) -> None:
    at = 56 + 8 * rng.randrange(4)
    size = rng.choice((0, 1, 90, 2800, 2**30 - 1))
    word = rng.randrange(16) << 60 | size << 30 | rng.choice((0, 1, size, max(0, size - 1), size // 3))
    data[at : at + 8] = struct.pack("<Q", word)


def cut(rng: random.Random, data: bytearray, _: Corpus) -> None:
    del data[rng.randrange(len(data)) :]


def delete(rng: random.Random, data: bytearray, _: Corpus) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 12)]


def insert(rng: random.Random, data: bytearray, _: Corpus) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.randint(1, 12))


def splice(rng: random.Random, data: bytearray, corpus: Corpus) -> None:
    other, at = rng.choice(corpus.messages), rng.randrange(len(data))
    data[at:] = other[rng.choice((at, rng.randrange(len(other)))) :]


Mutation = Callable[[random.Random, bytearray, Corpus], None]
MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    set_bytes,
    damage_pattern,
    set_number,
    set_layer,
    cut,
    delete,
    insert,
    splice,
)


def mutate(rng: random.Random, corpus: Corpus) -> tuple[bytes, bool]:
    """Return a damaged message, and whether it was given a right checksum."""
    data = bytearray(rng.choice(corpus.messages))
    for mutation in rng.choices(MUTATIONS, k=rng.choice((1, 1, 1, 2, 3))):
        if data:
            mutation(rng, data, corpus)
    reseal = rng.random() < 0.5 and len(data) >= 8
    return (_coding.seal([np.frombuffer(bytes(data[:-8]), np.uint8)]) if reseal else bytes(data)), reseal


def receive(data: bytes, resealed: bool, corpus: Corpus) -> str:
    """Return "accepted" or the reason of the refusal; anything that must not happen is an AssertionError."""
    try:
        if len(data) > 5 and data[5] == 2:
            importance = wire.unpack_importance(data, TEMPLATE)
            assert all(bool((np.isfinite(v) & (v >= 0)).all()) for v in importance.values())
        else:
            _check_state(wire.unpack(data, TEMPLATE, corpus.known), data)
    except wire.WireError as error:
        return error.reason
    assert resealed or data in corpus.messages, "accepted corruption"
    return "accepted"


def _check_state(state: SparseState, data: bytes) -> None:
    assert state.masks.digest == data[16:32], "masks other than those named"
    for name, shape in SHAPES.items():
        values, mask = state.values[name], state.masks.get(name)
        expected = shape if mask is None else (int(mask.sum()),)
        assert values.shape == expected, f"{name}: {values.shape}"
        assert bool(np.isfinite(values).all()), f"{name} is not finite"


def fuzz(num_inputs: int, seed: int, report_every: int = 0) -> Counter[str]:
    """Return how many inputs ended how; raise at the first that fails, naming its seed and number."""
    rng, corpus, outcomes = random.Random(seed), make_corpus(seed), Counter[str]()
    for number in range(num_inputs):
        data, resealed = mutate(rng, corpus)
        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_INPUT)
        try:
            outcomes[receive(data, resealed, corpus)] += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}, input {number}: {error!r}; {data.hex()}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if report_every and (number + 1) % report_every == 0:
            print(f"{number + 1} inputs", file=sys.stderr, flush=True)
    return outcomes


def limit_memory() -> None:
    """From now on an allocation beyond the allowance fails, in C++ too, and with it the input."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ALLOWANCE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Run as many inputs as asked and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--any-memory", action="store_true", help="under a sanitizer, which has its own")
    options = parser.parse_args()
    fuzz(1000, options.seed)  # so that everything is loaded before memory is limited
    if not options.any_memory:
        limit_memory()
    start = time.perf_counter()
    outcomes = fuzz(options.inputs, options.seed, report_every=100_000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{options.inputs} inputs in {time.perf_counter() - start:.0f} s, peak {peak} KiB: none failed")
    for outcome, count in outcomes.most_common():
        print(f"  {outcome:10} {count}")


if __name__ == "__main__":
    main()
