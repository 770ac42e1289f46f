"""How many weights may be pruned, and how large the model may be (docs/method.md 3 and 6)."""

from prunefl.system.errors import PruneFLError


def prunable_fraction(round_index: int, first: float = 0.3, halves_every: float = 10_000) -> float:
    """Return f(r) = 0.3·0.5^(r/10000), the fraction of the live weights that may be pruned in round r."""
    return float(first * 0.5 ** (round_index / halves_every))


def size_limit(round_index: int, rounds: int, limit: float | None, target: float | None) -> float | None:
    """Return d_max(r) = (r·d_t + (r_max − r)·d_l)/r_max, or None where there is no limit.

    A limit without a target holds all the way; a target without a limit comes down from the full model.
    Masks chosen now stay until the next reconfiguration, and the limit falls meanwhile: ask for the round at
    which that one happens, not for the present one.
    """
    for name, value in (("limit", limit), ("target", target)):
        if value is not None and not 0.0 < value <= 1.0:
            raise PruneFLError(f"{name}={value}, must be a density in (0, 1]")
    if target is None:
        return limit
    start = 1.0 if limit is None else limit
    if target > start:
        raise PruneFLError(f"target={target}, must be <= limit={limit}")
    if round_index >= rounds:
        return target
    return (max(round_index, 0) * target + (rounds - max(round_index, 0)) * start) / rounds


def allowed_weights(max_density: float | None, total: int) -> int:
    """Return how many of `total` prunable weights may live: never more than max_density of them."""
    # 0.05 of 6,601,500 is 330,075 and not one fewer because 0.05 has no exact binary form
    return total if max_density is None else min(total, int(max_density * total * (1 + 2**-50)))
