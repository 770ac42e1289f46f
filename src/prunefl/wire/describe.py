"""What is inside a message, without a model at hand: for `prunefl inspect` and for records."""

from dataclasses import dataclass

from prunefl.wire import format


@dataclass(frozen=True)
class LayerPart:
    """One layer of a message, in the order of the names; bytes of its pattern and of its values."""

    kind: str
    size: int
    live: int
    pattern_bytes: int
    value_bytes: int

    @property
    def density(self) -> float:
        """Live / all weights; an empty layer counts as full."""
        return self.live / self.size if self.size else 1.0


@dataclass(frozen=True)
class Description:
    """A sound message: what it holds and where its bytes are."""

    content: str
    kind: str
    precision: str
    template: bytes
    masks: bytes
    base: bytes
    layers: tuple[LayerPart, ...]
    header_bytes: int
    rest_bytes: int
    num_bytes: int

    @property
    def density(self) -> float:
        """Live / prunable weights of the whole model."""
        return sum(part.live for part in self.layers) / max(1, sum(part.size for part in self.layers))


def describe(data: bytes) -> Description:
    """Return what a message says about itself, once its structure and checksum are right."""
    message = format.parse(data)
    header = message.header
    parts = tuple(
        LayerPart(layer.kind, layer.size, layer.live, pattern.size, values.size)
        for layer, pattern, values in zip(header.layers, message.patterns, message.values, strict=True)
    )
    kinds = sorted({part.kind for part in parts})
    return Description(
        content=header.content,
        kind=kinds[0] if len(kinds) == 1 else "mixed",
        precision=header.precision,
        template=header.template,
        masks=header.masks,
        base=header.base,
        layers=parts,
        header_bytes=format.HEADER.size + 8 * len(parts) + format.CHECKSUM_BYTES,
        rest_bytes=message.rest.size,
        num_bytes=len(data),
    )
