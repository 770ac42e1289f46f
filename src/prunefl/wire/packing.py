"""From a state to bytes: the sender's side."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from prunefl.core.masks import Masks
from prunefl.core.network import digest_shapes
from prunefl.core.state import Array, SparseState
from prunefl.wire import format, patterns, values
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes, Header, Layer


@dataclass(frozen=True)
class Residual:
    """What rounding has kept back so far: for the masks of this digest, name -> float32, shape (live,)."""

    digest: bytes
    values: Mapping[str, Array]


def pack(
    state: SparseState, *, known: Masks | None = None, precision: str = "float32", kind: str | None = None
) -> bytes:
    """Return the message that brings a state to a receiver.

    Args:
        known: masks that the receiver has. If they are the same, no pattern is sent.
        precision: of the weights that have a mask: float32, bfloat16, float16, int8. All else stays float32.
        kind: of every layer's pattern: dense, bitmap, indices, coded, change, values. Default: for
            each layer the smallest.
    """
    if precision not in values.STATE_PRECISIONS:
        choices = ", ".join(values.STATE_PRECISIONS)
        raise WireError("argument", f"precision={precision!r}, must be one of {choices}")
    masks = state.masks
    _check_arguments(masks, known, kind)
    layers, coded = _encode_patterns(masks, known, kind)
    weights = [
        values.encode(name, values.flat(name, state.values[name]), precision) for name in sorted(masks)
    ]
    rest = [values.flat(name, state.values[name]) for name in sorted(state.values.keys() - masks.keys())]
    header = Header(
        content="state",
        precision=precision,
        template=digest_shapes({n: masks.shapes.get(n, v.shape) for n, v in state.values.items()}),
        masks=masks.digest,
        base=known.digest if known is not None and _uses_base(layers) else format.NO_MASKS,
        rest=sum(part.size for part in rest),
        layers=tuple(layers.values()),
    )
    return format.build(header, coded, weights + [part.view(np.uint8) for part in rest])


def pack_with_feedback(
    state: SparseState, residual: Residual | None, *, known: Masks | None = None, precision: str = "int8"
) -> tuple[bytes, Residual | None]:
    """Return a message, and what its rounding kept back (None for exact float32), to be given here again next time.

    Error feedback: the residual is added to the values before they are rounded, so over the rounds nothing is lost.
    None starts from zero; so does a residual of other masks, as its positions are not these.
    """
    if precision == "float32":
        return pack(state, known=known), None
    digest = state.masks.digest
    kept = residual.values if residual is not None and residual.digest == digest else {}
    wanted = {n: state.values[n] + kept[n] if n in kept else state.values[n] for n in state.masks}
    data = pack(replace(state, values={**state.values, **wanted}), known=known, precision=precision)
    sent = format.parse(data)
    left = {
        name: wanted[name] - values.decode(name, part, wanted[name].size, precision)
        for name, part in zip(sorted(state.masks), sent.values, strict=True)
    }
    return data, Residual(digest, left)


def _check_arguments(masks: Masks, known: Masks | None, kind: str | None) -> None:
    if kind is not None:
        format.code_of(format.KINDS, "kind", kind)
    for name, shape in masks.shapes.items():
        if masks.sizes[name] > format.MAX_WEIGHTS:
            raise WireError(
                "counts", f"{name} has {masks.sizes[name]} weights, the most is {format.MAX_WEIGHTS}"
            )
        if known is not None and known.shapes.get(name) != shape:
            raise WireError("argument", f"the known masks have no {name} of shape {shape}")


def _encode_patterns(
    masks: Masks, known: Masks | None, kind: str | None
) -> tuple[dict[str, Layer], list[Bytes]]:
    unchanged = kind in (None, "values") and masks == known
    layers, coded = {}, []
    for name in sorted(masks):
        chosen, data = "values", patterns.EMPTY
        if not unchanged:
            base = None if known is None else known.flat(name)
            chosen, data = _encode_pattern(kind, masks.flat(name), masks.shapes[name], base)
        layers[name] = Layer(chosen, masks.sizes[name], masks.counts[name])
        coded.append(data)
    return layers, coded


def _encode_pattern(
    kind: str | None, bits: Bytes, shape: tuple[int, ...], base: Bytes | None
) -> tuple[str, Bytes]:
    if kind is None:
        return patterns.encode_smallest(bits, shape, base)
    return kind, patterns.encode(kind, bits, shape, base)


def _uses_base(layers: Mapping[str, Layer]) -> bool:
    return any(layer.kind in format.BASED for layer in layers.values())
