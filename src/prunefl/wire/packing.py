"""From a state and its masks to bytes: the sender's side."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunefl.core import masks as pattern
from prunefl.core.masks import Masks
from prunefl.wire import format, patterns, values
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes, Header, Layer
from prunefl.wire.live import State, bits_of, live_values, same
from prunefl.wire.template import digest_of


@dataclass(frozen=True)
class Residual:
    """What rounding has kept back so far: for the masks of this digest, name -> float32, shape (live,)."""

    digest: bytes
    values: State


def pack(
    state: State,
    masks: Masks,
    *,
    known: Masks | None = None,
    digest: bytes | None = None,
    precision: str = "float32",
    kind: str | None = None,
) -> bytes:
    """Return the message that brings a state and its masks to a receiver.

    Args:
        known: masks that the receiver has. If they are the same, no pattern is sent.
        digest: `masks.digest(masks)` where the caller has it already.
        precision: of the weights that have a mask: float32, bfloat16, float16, int8. All else stays float32.
        kind: of every layer's pattern: dense, bitmap, indices, coded, change, values. Default: for
            each layer the smallest.
    """
    if precision not in values.STATE_PRECISIONS:
        choices = ", ".join(values.STATE_PRECISIONS)
        raise WireError("argument", f"precision={precision!r}, must be one of {choices}")
    _check_arguments(state, masks, known, kind)
    layers, coded = _encode_patterns(masks, known, kind)
    weights = [
        values.encode(name, live_values(name, state[name], masks[name], layer.live), precision)
        for name, layer in layers.items()
    ]
    rest = [values.flat(name, state[name]) for name in sorted(state.keys() - masks.keys())]
    own = digest or pattern.digest(masks)
    header = Header(
        content="state",
        precision=precision,
        template=digest_of({name: tuple(masks.get(name, state[name]).shape) for name in state}),
        masks=own,
        base=_base_digest(layers, masks, known, own),
        rest=sum(part.size for part in rest),
        layers=tuple(layers.values()),
    )
    return format.build(header, coded, weights + [part.view(np.uint8) for part in rest])


def pack_with_feedback(
    state: State,
    masks: Masks,
    residual: Residual | None,
    *,
    known: Masks | None = None,
    digest: bytes | None = None,
    precision: str = "int8",
    kind: str | None = None,
) -> tuple[bytes, Residual]:
    """Return a message of fewer bits, and what its rounding kept back, to be given here again next time.

    Error feedback: the residual is added to the values before they are rounded, so over
    the rounds nothing is lost. None starts from zero; so does a residual of other masks, as its positions are
    not these.
    """
    digest = digest or pattern.digest(masks)
    kept = residual.values if residual is not None and residual.digest == digest else {}
    wanted = {name: _add(live_values(name, state[name], masks[name]), kept.get(name)) for name in masks}
    data = pack({**state, **wanted}, masks, known=known, digest=digest, precision=precision, kind=kind)
    sent = format.parse(data)
    left = {
        name: wanted[name] - values.decode(name, part, wanted[name].numel(), precision)
        for name, part in zip(sorted(masks), sent.values, strict=True)
    }
    return data, Residual(digest, left)


def _add(live: NDArray[np.float32], kept: Tensor | None) -> Tensor:
    return torch.from_numpy(live) if kept is None else torch.from_numpy(live) + kept


def _check_arguments(state: State, masks: Masks, known: Masks | None, kind: str | None) -> None:
    if missing := masks.keys() - state.keys():
        raise WireError("argument", f"masks for {sorted(missing)}, which the state does not have")
    if kind is not None:
        format.code_of(format.KINDS, "kind", kind)
    for name, mask in masks.items():
        if mask.numel() > format.MAX_WEIGHTS:
            raise WireError("counts", f"{name} has {mask.numel()} weights, the most is {format.MAX_WEIGHTS}")
        if known is not None and (name not in known or known[name].shape != mask.shape):
            raise WireError("argument", f"the known masks have no {name} of shape {tuple(mask.shape)}")


def _encode_patterns(
    masks: Masks, known: Masks | None, kind: str | None
) -> tuple[dict[str, Layer], list[Bytes]]:
    unchanged = kind in (None, "values") and same(masks, known)
    layers, coded, counts = {}, [], pattern.live_counts(masks)
    for name in sorted(masks):
        bits, base = bits_of(masks[name]), None if known is None else bits_of(known[name])
        chosen, data = "values", patterns.EMPTY
        if not unchanged:
            chosen, data = _encode_pattern(kind, bits, tuple(masks[name].shape), base)
        layers[name] = Layer(chosen, bits.size, counts[name])
        coded.append(data)
    return layers, coded


def _encode_pattern(
    kind: str | None, bits: Bytes, shape: tuple[int, ...], base: Bytes | None
) -> tuple[str, Bytes]:
    if kind is None:
        return patterns.encode_smallest(bits, shape, base)
    return kind, patterns.encode(kind, bits, shape, base)


def _base_digest(layers: dict[str, Layer], masks: Masks, known: Masks | None, own: bytes) -> bytes:
    if known is None or not any(layer.kind in format.BASED for layer in layers.values()):
        return format.NO_MASKS
    return own if same(masks, known) else pattern.digest(known)
