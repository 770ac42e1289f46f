"""Packing with the precision that the config names: exact floats as they are, fewer bits with error feedback."""

from torch import Tensor

from prunefl import wire
from prunefl.core.masks import Masks, digest


def packed(
    state: dict[str, Tensor],
    masks: Masks,
    known: Masks | None,
    precision: str,
    residual: wire.Residual | None,
) -> tuple[bytes, wire.Residual | None]:
    """Return the message for a receiver that holds `known`, and what its rounding kept back (None if nothing)."""
    if precision == "float32":
        return wire.pack(state, masks, known=known, digest=digest(masks)), None
    return wire.pack_with_feedback(state, masks, residual, known=known, precision=precision)
