"""The format's arithmetic in plain Python, written from docs/wire-format.md: the C++'s slow oracle."""

import math
import struct

WORD = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotate(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & WORD


def mix(lane: int, word: int) -> int:
    return rotate((lane + word * P2) & WORD, 31) * P1 & WORD


def xxh64(data: bytes) -> int:
    start, value = 0, P5
    if len(data) >= 32:
        lanes = [(P1 + P2) & WORD, P2, 0, -P1 & WORD]
        for at in range(0, len(data) - 31, 32):
            lanes = [
                mix(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)
            ]
        start = at + 32
        value = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & WORD
        for lane in lanes:
            value = ((value ^ mix(0, lane)) * P1 + P4) & WORD
    value = (value + len(data)) & WORD
    for at in range(start, len(data) - 7, 8):
        value = (rotate(value ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & WORD
    at = len(data) - len(data) % 8
    if len(data) - at >= 4:
        value = (rotate(value ^ (struct.unpack_from("<I", data, at)[0] * P1 & WORD), 23) * P2 + P3) & WORD
        at += 4
    for byte in data[at:]:
        value = rotate(value ^ (byte * P5 & WORD), 11) * P1 & WORD
    value = (value ^ value >> 33) * P2 & WORD
    value = (value ^ value >> 29) * P3 & WORD
    return value ^ value >> 32


def model_of(n: int, k: int) -> tuple[int, int, list[int]]:
    """Return the low bits, the escape symbol and where each symbol starts, of a total of 4096."""
    shift = 0
    while n >> shift > 8 * k:
        shift += 1
    escape = 8 * min(8, max(2, -(-(n >> shift) // k))) - 1
    miss = ((n - k) << 32) // n
    for _ in range(shift):
        miss = miss * miss >> 32
    starts, survive = [], 1 << 32
    for symbol in range(escape + 1):
        starts.append(symbol + ((4096 - escape - 1) * ((1 << 32) - survive) >> 32))
        survive = survive * miss >> 32
    return shift, escape, [*starts, 4096]


def decode_subset(data: bytes, n: int, live: int) -> list[int]:
    """Return the 0/1 mask whose code this is."""
    k = min(live, n - live)
    mask = [int(live > k)] * n
    if k == 0:
        return mask
    shift, escape, starts = model_of(n, k)
    num_low, num_states = (k * shift + 7) // 8, 1 if k < 1024 else 4
    low = int.from_bytes(data[:num_low], "little")
    states = list(struct.unpack_from(f"<{num_states}I", data, num_low))
    words = iter(
        struct.unpack(f"<{(len(data) - num_low) // 2 - 2 * num_states}H", data[num_low + 4 * num_states :])
    )
    position = -1
    for i in range(k):
        high, symbol = 0, escape
        while symbol == escape:
            state = states[i % num_states]
            symbol = max(s for s in range(escape + 1) if starts[s] <= state % 4096)
            state = (starts[symbol + 1] - starts[symbol]) * (state >> 12) + state % 4096 - starts[symbol]
            states[i % num_states] = state << 16 | next(words) if state < 1 << 16 else state
            high += symbol
        position += 1 + (high << shift | low >> i * shift & ((1 << shift) - 1))
        mask[position] = int(live <= k)
    assert states == [1 << 16] * num_states
    assert next(words, None) is None
    return mask


def entropy_bytes(n: int, k: int) -> float:
    """Return N H(d) / 8: what the positions of k in n cost at the least."""
    if k in (0, n):
        return 0.0
    d = k / n
    return n * -(d * math.log2(d) + (1 - d) * math.log2(1 - d)) / 8
