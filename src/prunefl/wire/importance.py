"""Importance (docs/method.md 1) as bytes: of all positions, live or pruned, and of all parameters."""

import math
from collections.abc import Mapping

from prunefl.core.masks import Shape
from prunefl.core.network import Template, digest_shapes
from prunefl.core.state import Array, Arrays
from prunefl.wire import format, values
from prunefl.wire.errors import WireError
from prunefl.wire.format import Header, Layer
from prunefl.wire.unpacking import open_message


def pack_importance(importance: Arrays, precision: str = "float32") -> bytes:
    """Return the message that brings importance to the server.

    Args:
        importance: float32 arrays in the parameters' own shapes: of all parameters, or of the prunable ones.
        precision: "float32", or "log8": a byte a value, within 4.6 % down to 2^-31 of the
            layer's largest; what is smaller is zero.
    """
    if precision not in values.IMPORTANCE_PRECISIONS:
        choices = ", ".join(values.IMPORTANCE_PRECISIONS)
        raise WireError("argument", f"precision={precision!r}, must be one of {choices}")
    names = sorted(importance)
    flat = [values.flat(name, importance[name]) for name in names]
    shapes = {name: importance[name].shape for name in names}
    layers = tuple(Layer("dense", part.size, part.size) for part in flat)
    header = Header(
        "importance", precision, digest_shapes(shapes), format.NO_MASKS, format.NO_MASKS, 0, layers
    )
    coded = [values.encode(name, part, precision) for name, part in zip(names, flat, strict=True)]
    return format.build(header, [], coded)


def unpack_importance(data: bytes, template: Template, *, signed: bool = False) -> dict[str, Array]:
    """Return the importance of a message, in the parameters' shapes and the template's order.

    Args:
        signed: whether it may be negative, as a gradient is.
    """
    message = open_message(data, "importance")
    header = message.header
    shapes = _expected(header, template)
    names, choices = sorted(shapes), values.IMPORTANCE_PRECISIONS
    if [layer.size for layer in header.layers] != [math.prod(shapes[name]) for name in names] or header.rest:
        raise WireError("counts", "the message's counts are not those of the model")
    if any(layer.kind != "dense" for layer in header.layers) or header.precision not in choices:
        raise WireError("corrupted", f"importance in {header.precision}, or with a pattern")
    found = {
        name: values.decode(name, part, layer.live, header.precision, negative=signed).reshape(shapes[name])
        for name, layer, part in zip(names, header.layers, message.values, strict=True)
    }
    return {name: found[name] for name in shapes}


def _expected(header: Header, template: Template) -> Mapping[str, Shape]:
    for shapes in (template.parameters, template.layers):
        if digest_shapes(shapes) == header.template:
            return shapes
    raise WireError("model", "the message is of a model with other names or shapes")
