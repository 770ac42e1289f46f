"""Tables of what is inside a message, a model or a checkpoint; nothing in the file is run."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from rich.table import Table

    from prunefl.core.state import SparseState
    from prunefl.wire import Description

MASK = "mask:"
"""How a model file names the bits of a mask."""


def file_table(file: Path) -> "Table":
    """Return the table of a file's layers; a damaged one is refused."""
    from prunefl import wire
    from prunefl.runs.checkpoint import is_checkpoint, load_one

    try:
        data = file.read_bytes()
    except OSError as error:
        raise PruneFLError(f"{file}: {error.strerror}") from None
    try:
        if data[:4] == b"PFLW":
            return _message_table(wire.describe(data))
        header = _safetensors_header(data)
    except ValueError as error:
        raise PruneFLError(f"{file}: {error}") from None
    if is_checkpoint(header.get("__metadata__", {})):
        state, _ = load_one(file)
        return _state_table(
            f"checkpoint after round {max(0, state.round)}, {len(data):,} bytes", state.sparse
        )
    return _safetensors_table(header, len(data))


def _state_table(title: str, state: "SparseState") -> "Table":
    masks = state.masks
    table = _table(f"{title}, density {masks.density:.2%}", "layer", "shape", "weights", "live", "density")
    for name, live in masks.counts.items():
        size = masks.sizes[name]
        table.add_row(name, _spoken_shape(masks.shapes[name]), f"{size:,}", f"{live:,}", f"{live / size:.2%}")
    table.add_section()
    rest = sum(value.size for name, value in state.values.items() if name not in masks)
    table.add_row("other values", "", f"{rest:,}", "", "")
    return table


def _spoken_shape(shape: Any) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _table(title: str, *headings: str) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        left = heading in ("layer", "kind", "type")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    return table


def _message_table(found: "Description") -> "Table":
    density = f", density {found.density:.2%}" if found.content == "state" else ""
    title = f"{found.content}, {found.kind}, {found.precision}, {found.num_bytes:,} bytes{density}\n"
    title += f"model {found.template.hex()}  masks {found.masks.hex()}"
    table = _table(title, "layer", "kind", "weights", "live", "density", "pattern bytes", "value bytes")
    for number, part in enumerate(found.layers):
        counts = (f"{part.size:,}", f"{part.live:,}", f"{part.density:.2%}")
        table.add_row(str(number), part.kind, *counts, f"{part.pattern_bytes:,}", f"{part.value_bytes:,}")
    table.add_section()
    table.add_row("other values", "", f"{found.rest_bytes // 4:,}", "", "", "", f"{found.rest_bytes:,}")
    table.add_row("header", "", "", "", "", f"{found.header_bytes:,}", "")
    return table


def _safetensors_table(header: Mapping[str, Any], num_bytes: int) -> "Table":
    shapes = _own_shapes(header.get("__metadata__", {}))
    table = _table(f"safetensors, {num_bytes:,} bytes", "layer", "type", "shape", "live", "density", "bytes")
    for name, entry in sorted(header.items()):
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        shape, live, density = tuple(shapes.get(name, entry["shape"])), "", ""
        if MASK + name in header and math.prod(shape):
            live, density = (
                f"{math.prod(entry['shape']):,}",
                f"{math.prod(entry['shape']) / math.prod(shape):.2%}",
            )
        table.add_row(name, entry["dtype"], _spoken_shape(shape), live, density, f"{end - begin:,}")
    return table


def _safetensors_header(data: bytes) -> dict[str, Any]:
    import safetensors.torch
    from safetensors import SafetensorError

    try:
        safetensors.torch.load(data)  # checks every offset against the length
        length = int.from_bytes(data[:8], "little")
        header: dict[str, Any] = json.loads(data[8 : 8 + length])
    except (SafetensorError, ValueError):
        raise PruneFLError("neither a message of the wire format nor a safetensors file") from None
    return header


def _own_shapes(metadata: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the shapes that a prunefl model file gives for its pruned layers; none for other files."""
    try:
        shapes: dict[str, list[int]] = json.loads(metadata["prunefl"])["shapes"]
    except (KeyError, TypeError, ValueError):
        return {}
    return shapes
