"""From bytes to a state and its masks: the receiver's side, which believes nothing."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from prunefl.core import masks as pattern
from prunefl.core.masks import Masks
from prunefl.wire import format, patterns, values
from prunefl.wire.errors import WireError
from prunefl.wire.format import Bytes, Header, Layer, Message
from prunefl.wire.live import bits_of
from prunefl.wire.template import Shape, Template, size_of

NOTHING_KNOWN: Mapping[bytes, Masks] = {}


def unpack(
    data: bytes, template: Template, known: Mapping[bytes, Masks] = NOTHING_KNOWN
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the state and the masks of a message, in the template's order, or raise WireError.

    A tensor with a mask comes as its live values in row-major order, shape (live,); see `dense`.

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
    return {name: found[name] for name in template.names}, masks


def open_message(data: bytes, content: str) -> Message:
    """Return the parts of a sound message of the given content."""
    message = format.parse(data)
    if message.header.content != content:
        raise WireError("foreign", f"the message holds {message.header.content}, must hold {content}")
    return message


def _check_sizes(header: Header, template: Template, names: list[str]) -> None:
    if header.precision not in values.STATE_PRECISIONS:
        raise WireError("corrupted", f"a state in {header.precision}")
    sizes = {name: size_of(shape) for name, shape in template.shape_of.items()}
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


def _decode_patterns(
    message: Message, template: Template, names: list[str], base: Masks | None
) -> dict[str, Tensor]:
    header, found = message.header, {}
    for name, layer, part in zip(names, header.layers, message.patterns, strict=True):
        shape = template.shape_of[name]
        before = None if base is None else _known_mask(base, name, shape)
        if layer.kind == "values" and before is not None:
            found[name] = _standing(before, layer)
            continue
        bits = patterns.decode(layer, part, shape, None if before is None else bits_of(before))
        found[name] = torch.from_numpy(bits.view(np.bool_)).reshape(shape)
    masks = {name: found[name] for name in template.names if name in found}
    values_only = header.base == header.masks and all(layer.kind == "values" for layer in header.layers)
    if not values_only and pattern.digest(masks) != header.masks:
        raise WireError("digest", "the patterns do not have the digest that the message names")
    return masks


def _known_mask(base: Masks, name: str, shape: Shape) -> Tensor:
    if name not in base or tuple(base[name].shape) != shape:
        raise WireError("digest", f"the known masks have no {name} of shape {shape}")
    return base[name]


def _standing(mask: Tensor, layer: Layer) -> Tensor:
    """Return a mask that stands: handed on, not copied."""
    live = pattern.live_counts({"": mask})[""]
    if live != layer.live:
        raise WireError("counts", f"the known mask has {live} live weights, {layer.live} announced")
    return mask


def _decode_rest(data: Bytes, template: Template) -> dict[str, Tensor]:
    found, at = {}, 0
    for name in sorted(set(template.names) - template.prunable):
        shape = template.shape_of[name]
        end = at + 4 * size_of(shape)
        found[name] = values.decode(name, data[at:end], (end - at) // 4, "float32").reshape(shape)
        at = end
    return found
