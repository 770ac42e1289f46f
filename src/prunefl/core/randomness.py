"""All randomness of a run, derived from (seed, purpose, numbers): nothing to save, no race (SPEC 12)."""

import hashlib

import torch


def derived_seed(seed: int, purpose: str, *numbers: int) -> int:
    """Return a 63-bit seed that depends on every argument."""
    text = " ".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, purpose: str, *numbers: int) -> torch.Generator:
    """Return a fresh generator for one purpose, such as the batches of client 3 in round 7."""
    return torch.Generator().manual_seed(derived_seed(seed, purpose, *numbers))


def draw_clients(seed: int, round: int, clients: int, participants: int) -> list[int]:
    """Return the round's cohort, sorted, drawn without replacement; every method sees the same (SPEC 11)."""
    if participants in (0, clients):
        return list(range(clients))
    order = torch.randperm(clients, generator=generator(seed, "cohort", round))
    return sorted(order[:participants].tolist())
