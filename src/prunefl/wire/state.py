"""A model's state as bytes and back: weights under masks, and everything else that is exchanged."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunefl import _coding
from prunefl import masks as pattern
from prunefl.masks import Masks
from prunefl.wire import format, patterns, values
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes, Header, Layer, Message
from prunefl.wire.template import Template, digest_of, size_of

State = Mapping[str, Tensor]
NOTHING_KNOWN: Mapping[bytes, Masks] = {}


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
        state: float32 tensors; one with a mask is of the mask's shape, or holds only the live values, in
            row-major order, shape (live,).
        known: masks that the receiver has. If they are the same, no pattern is sent.
        digest: `masks.digest(masks)` where the caller has it already: it takes longer than the packing.
        precision: of the weights that have a mask; all else, a thousandth of the bytes, stays float32.
        kind: of every layer's pattern: dense, bitmap, indices, coded, change, values. Default: for
            each layer the smallest.
    """
    if precision not in values.STATE_PRECISIONS:
        raise WireError(
            "argument", f"precision={precision!r}, must be one of {', '.join(values.STATE_PRECISIONS)}"
        )
    layers, coded = _encode_patterns(state, masks, known, kind)
    weights = [values.encode(name, live_values(name, state[name], masks[name]), precision) for name in layers]
    rest = [values.flat(name, state[name]) for name in sorted(state.keys() - masks.keys())]
    own = digest or pattern.digest(masks)
    uses_base = any(layer.kind in ("values", "change") for layer in layers.values())
    shapes = {name: tuple((masks[name] if name in masks else state[name]).shape) for name in state}
    header = Header(
        "state",
        precision,
        digest_of(shapes),
        own,
        _base_digest(masks, known, own) if uses_base else format.NO_MASKS,
        sum(part.size for part in rest),
        tuple(layers.values()),
    )
    return format.build(header, coded, weights + [part.view(np.uint8) for part in rest])


def unpack(
    data: bytes, template: Template, known: Mapping[bytes, Masks] = NOTHING_KNOWN
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the state and the masks of a message, in the template's order, or raise WireError.

    A tensor with a mask comes as its live values in row-major order, shape (live,); see `dense`.

    Args:
        known: masks that this side has, by digest; a values-only message refers to one of them.
    """
    message = open_message(data, "state")
    header = message.header
    if header.template != template.digest:
        raise WireError("model", "the message is of a model with other names or shapes")
    names = sorted(template.prunable)
    _check_sizes(header, template, names)
    masks = _decode_patterns(message, template, names, known)
    found = {
        name: values.decode(name, part, layer.live, header.precision)
        for name, layer, part in zip(names, header.layers, message.values, strict=True)
    }
    found |= _decode_rest(message.rest, template)
    return {name: found[name] for name in template.names}, masks


def dense(state: State, masks: Masks) -> dict[str, Tensor]:
    """Return the state with every tensor in its own shape, and zeros at pruned positions."""
    return {name: _spread(tensor, masks[name]) if name in masks else tensor for name, tensor in state.items()}


def live_values(name: str, tensor: Tensor, mask: Tensor) -> NDArray[np.float32]:
    """Return the live values, shape (live,), of a tensor that is dense or holds only them already."""
    given, bits = values.flat(name, tensor), bits_of(mask)
    live = _coding.count(bits)
    # a 1-D weight of full density is both, and both readings agree
    if tensor.dim() == 1 and tensor.numel() == live:
        return given
    if tensor.shape != mask.shape:
        raise WireError(
            "argument", f"{name} has shape {tuple(tensor.shape)}, must be {tuple(mask.shape)} or ({live},)"
        )
    picked = np.empty(live, np.float32)
    _coding.gather(given, bits, picked)
    return picked


def bits_of(mask: Tensor) -> Bytes:
    """Return the mask as flat bytes, 0 or 1."""
    if mask.dtype != torch.bool:
        raise WireError("argument", f"a mask is {mask.dtype}, must be torch.bool")
    bits: Bytes = mask.contiguous().reshape(-1).numpy().view(np.uint8)
    return bits


def open_message(data: bytes, content: str) -> Message:
    """Return the parts of a sound message of the given content."""
    message = format.parse(data)
    if message.header.content != content:
        raise WireError("foreign", f"the message holds {message.header.content}, must hold {content}")
    return message


def same(one: Masks, other: Masks | None) -> bool:
    """Return whether two sets of masks are equal; quick when they are the same objects."""
    if one is other:
        return True
    return (
        other is not None and list(one) == list(other) and all(_equal(one[name], other[name]) for name in one)
    )


def _equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and np.array_equal(bits_of(one), bits_of(other)))


def _encode_patterns(
    state: State, masks: Masks, known: Masks | None, kind: str | None
) -> tuple[dict[str, Layer], list[Bytes]]:
    if missing := masks.keys() - state.keys():
        raise WireError("argument", f"masks for {sorted(missing)}, which the state does not have")
    if kind is not None:
        format.code_of(format.KINDS, "kind", kind)
    unchanged = kind is None and same(masks, known)
    layers, coded = {}, []
    for name in sorted(masks):
        bits, shape = bits_of(masks[name]), tuple(masks[name].shape)
        if bits.size > format.MAX_WEIGHTS:
            raise WireError("counts", f"{name} has {bits.size} weights, must be at most {format.MAX_WEIGHTS}")
        base = _base_bits(name, masks[name], known)
        chosen, data = ("values", patterns.EMPTY) if unchanged else _encode_pattern(kind, bits, shape, base)
        layers[name] = Layer(chosen, bits.size, _coding.count(bits))
        coded.append(data)
    return layers, coded


def _encode_pattern(
    kind: str | None, bits: Bytes, shape: tuple[int, ...], base: Bytes | None
) -> tuple[str, Bytes]:
    if kind is None:
        return patterns.encode_smallest(bits, shape, base)
    return kind, patterns.encode(kind, bits, shape, base)


def _base_bits(name: str, mask: Tensor, known: Masks | None) -> Bytes | None:
    if known is None:
        return None
    if name not in known or known[name].shape != mask.shape:
        raise WireError("argument", f"the known masks have no {name} of shape {tuple(mask.shape)}")
    return bits_of(known[name])


def _base_digest(masks: Masks, known: Masks | None, own: bytes) -> bytes:
    assert known is not None, "a kind that refers to known masks was chosen"
    return own if same(masks, known) else pattern.digest(known)


def _check_sizes(header: Header, template: Template, names: list[str]) -> None:
    sizes = {name: size_of(shape) for name, shape in template.shape_of.items()}
    if [layer.size for layer in header.layers] != [sizes[name] for name in names]:
        raise WireError("model", "the message prunes other layers than the model")
    if header.rest != sum(sizes.values()) - sum(layer.size for layer in header.layers):
        raise WireError("counts", f"{header.rest} values outside the pruned layers")


def _decode_patterns(
    message: Message, template: Template, names: list[str], known: Mapping[bytes, Masks]
) -> dict[str, Tensor]:
    header = message.header
    base = known.get(header.base) if header.base != format.NO_MASKS else None
    if base is None and any(layer.kind in ("values", "change") for layer in header.layers):
        raise WireError("digest", f"masks {header.base.hex()} are not known here")
    found = {}
    for name, layer, part in zip(names, header.layers, message.patterns, strict=True):
        shape = template.shape_of[name]
        before = (
            None
            if base is None
            else _base_bits(name, torch.empty(shape, dtype=torch.bool, device="meta"), base)
        )
        bits = patterns.decode(layer, part, shape, before)
        found[name] = base[name] if base is not None and layer.kind == "values" else _mask(bits, shape)
    masks = {name: found[name] for name in template.names if name in found}
    values_only = header.base == header.masks and all(layer.kind == "values" for layer in header.layers)
    if not values_only and pattern.digest(masks) != header.masks:
        raise WireError("digest", "the patterns do not have the digest that the message names")
    return masks


def _mask(bits: Bytes, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(bits.view(np.bool_)).reshape(shape)


def _decode_rest(data: Bytes, template: Template) -> dict[str, Tensor]:
    found, at = {}, 0
    for name in sorted(set(template.names) - template.prunable):
        shape = template.shape_of[name]
        end = at + 4 * size_of(shape)
        found[name] = values.decode(name, data[at:end], (end - at) // 4, "float32").reshape(shape)
        at = end
    return found


def _spread(tensor: Tensor, mask: Tensor) -> Tensor:
    whole = torch.zeros(mask.shape, dtype=torch.float32)
    given = live_values("state", tensor, mask)
    _coding.scatter(given, bits_of(mask), whole.reshape(-1).numpy())
    return whole
