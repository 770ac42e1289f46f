"""`prunefl bench wire`: how large the messages are and how long they take."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from prunefl.system.errors import PruneFLError

if TYPE_CHECKING:
    from prunefl.measure.bench.wire import Row


def bench_wire(
    densities: Annotated[
        list[float] | None, typer.Option("--density", help="share of the weights that live; may be repeated")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="how values are sent: float32, bfloat16, float16 or int8")
    ] = "float32",
    repeats: Annotated[int, typer.Option(min=1, help="runs of each measurement; the best counts")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON list instead of a table")] = False,
) -> None:
    """Measure the bytes and seconds of every kind of message for Conv-2.

    Beside them are what the paper's format takes for the same purpose, and the entropy of the pattern.

    Examples:
      prunefl bench wire
      prunefl bench wire --density 0.1 --precision int8 --json
    """
    from prunefl.local.torch_backend.threads import running_threads
    from prunefl.measure.bench import wire

    if wrong := [density for density in densities or [] if not 0 <= density <= 1]:
        raise PruneFLError(f"--density {wrong[0]}, must be between 0 and 1")
    with running_threads(1):
        rows = list(wire.rows(densities or wire.DENSITIES, precision, repeats))
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        _print_table(rows)


def _print_table(rows: "list[Row]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Conv-2, 6,601,504 prunable weights")
    for heading in ("density", "kind", "bytes", "paper's", "entropy's", "encode ms", "decode ms"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for row in rows:
        sizes = [f"{size:,}" for size in (row.num_bytes, row.paper_bytes, row.entropy_bytes)]
        times = [f"{1000 * seconds:.2f}" for seconds in (row.encode_seconds, row.decode_seconds)]
        table.add_row(f"{row.density:.1%}", row.kind, *sizes, *times)
    Console().print(table)
