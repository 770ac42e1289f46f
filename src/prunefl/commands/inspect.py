"""`prunefl inspect FILE`: what is inside a message, a model or a checkpoint."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from rich.table import Table

    from prunefl.wire import Description

MASK = "mask:"
"""How a model file names the bits of a mask."""


def inspect(
    file: Annotated[Path, typer.Argument(help="a message of the wire format, or a safetensors file")],
) -> None:
    """Show what a file holds: its kind, its layers with their densities, and where its bytes are.

    Nothing in the file is run, and a damaged one is refused.

    Example:

      prunefl inspect runs/demo/prunefl/model.safetensors
    """
    from rich.console import Console

    from prunefl import wire

    try:
        data = file.read_bytes()
    except OSError as error:
        raise PruneFLError(f"{file}: {error.strerror}") from None
    try:
        table = _message_table(wire.describe(data)) if data[:4] == b"PFLW" else _safetensors_table(data)
    except ValueError as error:
        raise PruneFLError(f"{file}: {error}") from None
    Console().print(table)


def _table(title: str, *headings: str) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("layer", "kind", "type") else "right")
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


def _safetensors_table(data: bytes) -> "Table":
    header = _safetensors_header(data)
    shapes = _own_shapes(header.pop("__metadata__", {}))
    table = _table(f"safetensors, {len(data):,} bytes", "layer", "type", "shape", "live", "density", "bytes")
    for name, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        shape, live, density = tuple(shapes.get(name, entry["shape"])), "", ""
        if MASK + name in header and math.prod(shape):
            live, density = (
                f"{math.prod(entry['shape']):,}",
                f"{math.prod(entry['shape']) / math.prod(shape):.2%}",
            )
        table.add_row(
            name, entry["dtype"], "x".join(map(str, shape)) or "scalar", live, density, f"{end - begin:,}"
        )
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


def _own_shapes(metadata: dict[str, str]) -> dict[str, list[int]]:
    """Return the shapes that a prunefl model file gives for its pruned layers; none for other files."""
    try:
        shapes: dict[str, list[int]] = json.loads(metadata["prunefl"])["shapes"]
    except (KeyError, TypeError, ValueError):
        return {}
    return shapes
