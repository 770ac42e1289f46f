"""`prunefl export`: a run's final model for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import nn


def export(
    run: Annotated[Path, typer.Argument(help="a run's folder, or its model.safetensors")],
    to: Annotated[str, typer.Option(help="what to write: onnx, safetensors or torch")],
    out: Annotated[
        Path | None, typer.Option(help="the file to write; beside the run's model if not given")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="ONNX: store zeros too, for runtimes that do not fold constants")
    ] = False,
    model: Annotated[
        str, typer.Option(help="package.module:function of the network, where it was your own")
    ] = "",
) -> None:
    """Write the pruned model as ONNX, as safetensors or as a torch program, and say how large it is.

    Examples:
      prunefl export runs/femnist --to onnx
      prunefl export runs/mine --to safetensors --model mynets:small
    """
    from rich.console import Console
    from rich.table import Table

    from prunefl.export import export as write

    network = _own_model(run, model) if model else None
    written = write(run, to, out, plain=plain, model=network)
    table = Table("file", "bytes", "of dense")
    for name, size in (
        ("dense weights", written.dense_bytes),
        ("the run's model.safetensors", written.kept_bytes),
        (str(written.path), written.num_bytes),
    ):
        table.add_row(name, f"{size:,}", f"{size / written.dense_bytes:.1%}")
    Console().print(table)


def _own_model(run: Path, spec: str) -> "nn.Module":
    """Return the user's untrained network."""
    from prunefl.export.inference import model_file
    from prunefl.models import build
    from prunefl.wire.model_file import load_model

    _, about = load_model(model_file(run))
    return build(spec, classes=about.classes, input_shape=about.input_shape, seed=0)
