"""From bytes to a state: the receiver's side, which believes nothing."""

import math
from collections.abc import Mapping

import numpy as np

from prunefl.core.masks import Mask, Masks, Shape
from prunefl.core.network import Template
from prunefl.core.state import Array, SparseState
from prunefl.wire import format, patterns, values
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes, Header, Message

NOTHING_KNOWN: Mapping[bytes, Masks] = {}


def unpack(data: bytes, template: Template, known: Mapping[bytes, Masks] = NOTHING_KNOWN) -> SparseState:
    """Return the state of a message, in the template's order, or raise WireError.

    Args:
        known: masks that this side has, by digest; a values-only message refers to one of them.
    """
    message = open_message(data, "state")
    header, names = message.header, sorted(template.prunable)
    if header.template != template.digest:
        raise WireError("model", "the message is of a model with other names or shapes")
    _check_sizes(header, template, names)
    masks = _decode_patterns(message, template, names, _base(header, known))
    found = {
        name: values.decode(name, part, layer.live, header.precision)
        for name, layer, part in zip(names, header.layers, message.values, strict=True)
    }
    found |= _decode_rest(message.rest, template)
    return SparseState({name: found[name] for name in template.names}, masks)


def open_message(data: bytes, content: str) -> Message:
    """Return the parts of a sound message of the given content."""
    message = format.parse(data)
    if message.header.content != content:
        raise WireError("foreign", f"the message holds {message.header.content}, must hold {content}")
    return message


def _check_sizes(header: Header, template: Template, names: list[str]) -> None:
    if header.precision not in values.STATE_PRECISIONS:
        raise WireError("corrupted", f"a state in {header.precision}")
    sizes = {name: math.prod(shape) for name, shape in template.shape_of.items()}
    if [layer.size for layer in header.layers] != [sizes[name] for name in names]:
        raise WireError("model", "the message prunes other layers than the model")
    if header.rest != sum(sizes.values()) - sum(layer.size for layer in header.layers):
        raise WireError("counts", f"{header.rest} values outside the pruned layers")


def _base(header: Header, known: Mapping[bytes, Masks]) -> Masks | None:
    if not any(layer.kind in format.BASED for layer in header.layers):
        return None
    if header.base not in known:
        raise WireError("digest", f"masks {header.base.hex()} are not known here")
    return known[header.base]


def _decode_patterns(message: Message, template: Template, names: list[str], base: Masks | None) -> Masks:
    header = message.header
    for name in names:
        if base is not None and base.shapes.get(name) != template.shape_of[name]:
            raise WireError("digest", f"the known masks have no {name} of shape {template.shape_of[name]}")
    if base is not None and all(layer.kind == "values" for layer in header.layers):
        return _standing_masks(header, names, base)
    found: dict[str, Mask] = {}
    for name, layer, part in zip(names, header.layers, message.patterns, strict=True):
        if layer.kind == "values" and base is not None:
            _check_count(base.counts[name], layer.live)
            found[name] = base[name]
            continue
        before = None if base is None else base.flat(name)
        bits = patterns.decode(layer, part, template.shape_of[name], before)
        bits.flags.writeable = False  # nobody else has them, so the masks need no copy
        found[name] = bits.view(np.bool_).reshape(template.shape_of[name])
    masks = Masks({name: found[name] for name in template.layers})
    if masks.digest != header.masks:
        raise WireError("digest", "the patterns do not have the digest that the message names")
    return masks


def _standing_masks(header: Header, names: list[str], base: Masks) -> Masks:
    """Return masks that stand: handed on, not copied."""
    for name, layer in zip(names, header.layers, strict=True):
        _check_count(base.counts[name], layer.live)
    if header.base != header.masks:
        raise WireError("digest", "the patterns do not have the digest that the message names")
    return base


def _check_count(known: int, announced: int) -> None:
    if known != announced:
        raise WireError("counts", f"the known mask has {known} live weights, {announced} announced")


def _decode_rest(data: Bytes, template: Template) -> dict[str, Array]:
    found: dict[str, Array] = {}
    at = 0
    for name in sorted(set(template.names) - template.prunable):
        shape: Shape = template.shape_of[name]
        end = at + 4 * math.prod(shape)
        found[name] = values.decode(name, data[at:end], (end - at) // 4, "float32").reshape(shape)
        at = end
    return found
