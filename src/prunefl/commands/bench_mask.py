"""`prunefl bench mask`: how long a client takes to mask an update."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prunefl.measure.bench.mask import Row


def bench_mask(
    values: Annotated[int, typer.Option(min=1, help="live values in the client's update")] = 1_000_000,
    neighbours: Annotated[
        list[int] | None,
        typer.Option("--neighbours", min=2, help="clients that it shares masks with; may be repeated"),
    ] = None,
    narrow: Annotated[
        bool, typer.Option("--narrow", help="16 bits a value, as with wire.precision=float16, in place of 32")
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="runs of each measurement; the best counts")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON list instead of a table")] = False,
) -> None:
    """Measure what privacy.secure costs a client in a round: shares, fixed point and masks, on one core.

    Examples:
      prunefl bench mask
      prunefl bench mask --values 300000 --neighbours 9 --json
    """
    from prunefl.privacy.errors import require_packages

    require_packages()
    from prunefl.measure.bench import mask

    bits = mask.NARROW if narrow else mask.WIDE
    rows = list(mask.rows(values, neighbours or mask.NEIGHBOURS, bits, repeats))
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        _print_table(rows)


def _print_table(rows: "list[Row]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{rows[0].values:,} values of {rows[0].bits} bits")
    for heading in ("neighbours", "bytes", "shares ms", "encode ms", "mask ms", "encode and mask ms"):
        table.add_column(heading, justify="right")
    for row in rows:
        seconds = (
            row.share_seconds,
            row.encode_seconds,
            row.mask_seconds,
            row.encode_seconds + row.mask_seconds,
        )
        table.add_row(str(row.neighbours), f"{row.num_bytes:,}", *(f"{1000 * one:.1f}" for one in seconds))
    Console().print(table)
