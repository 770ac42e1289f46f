"""`prunefl bench step` and `prunefl bench layers`: sparse training against dense PyTorch on this machine."""

import json
from typing import Annotated

import typer

from prunefl.config.networks import NETWORKS
from prunefl.system.instructions import spoken_kernels

Model = Annotated[str, typer.Option(help=f"one of {', '.join(NETWORKS)}")]
Density = Annotated[float, typer.Option(help="share of the weights that live, the same in every layer")]
Threads = Annotated[int, typer.Option(help="threads to compute with, dense and sparse alike")]
Batch = Annotated[int, typer.Option(help="samples in the mini-batch of a step")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object instead of text")]


def step(
    model: Model = "conv2",
    density: Density = 0.1,
    threads: Threads = 1,
    batch: Batch = 20,
    seconds: Annotated[float, typer.Option(help="seconds to measure for, in all")] = 8.0,
    as_json: Json = False,
    optimisers: Annotated[
        bool,
        typer.Option("--optimisers", help="time the sparse step with every optimiser instead, beside SGD's"),
    ] = False,
) -> None:
    """Time one training step: forward, backward and SGD, dense and sparse in turn.

    Dense PyTorch is timed in the way that is its fastest here (gradient buffers kept or not, fused SGD or not).
    The importance step is a sparse one that also adds up g² of all weights. Sparse is torch's backend with our layers,
    native the same network by plan (run.backend=native).

    Example:
      prunefl bench step --model vgg11 --density 0.05 --threads 2
    """
    from prunefl.measure.bench.step import bench_step

    if optimisers:
        _show_optimisers(model, density, threads, batch, seconds, as_json)
        return
    found = bench_step(model, density, threads, batch, seconds)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{model}, density {density:.1%}, batch {batch}, threads {threads}, {spoken_kernels()}")
    names = ("dense", "sparse", "importance", *(["native"] if found["native_speedup"] else []))
    for name in names:
        spread = f"half of them between {found[f'{name}_low_ms']:.3f} and {found[f'{name}_high_ms']:.3f}"
        typer.echo(f"  {name:<11}{found[f'{name}_ms']:>10.3f} ms   {spread}")
    typer.echo(f"  sparse is {found['speedup']:.2f} times as fast as dense")
    if found["native_speedup"]:
        typer.echo(f"  native is {found['native_speedup']:.2f} times as fast as dense")
    if threads > 1:
        typer.echo(f"  and with {threads} threads {found['thread_speedup']:.2f} times as fast as with one")


def _show_optimisers(
    model: str, density: float, threads: int, batch: int, seconds: float, as_json: bool
) -> None:
    """Print what a step with each optimiser takes."""
    from prunefl.measure.bench.optimisers import bench_optimisers

    found = bench_optimisers(model, density, threads, batch, seconds)
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{model}, density {density:.1%}, batch {batch}, threads {threads}, {spoken_kernels()}")
    rows = found["optimisers"]
    assert isinstance(rows, list)
    for row in rows:
        name = f"{row['backend']:<8}{row['optimiser']:<16}"
        typer.echo(f"  {name}{row['ms']:>9.3f} ms   {100 * row['over_sgd']:+.1f} % over sgd")


def layers(
    model: Model = "conv2",
    density: Density = 0.1,
    threads: Threads = 1,
    batch: Batch = 20,
    seconds: Annotated[float, typer.Option(help="seconds to measure each layer for")] = 1.0,
    as_json: Json = False,
) -> None:
    """Time one training step of each layer by itself, input gradient included, dense and sparse in turn.

    Example:
      prunefl bench layers --model resnet18 --density 0.1
    """
    from prunefl.measure.bench.layers import bench_layers

    rows = bench_layers(model, density, threads, batch, seconds)
    if as_json:
        settings = {"model": model, "density": density, "threads": threads, "batch": batch}
        typer.echo(json.dumps({**settings, "layers": rows}))
        return
    typer.echo(
        f"{model}, density {density:.1%}, batch {batch}, threads {threads}, {spoken_kernels()}; milliseconds"
    )
    typer.echo(f"  {'layer':<28}{'dense':>10}{'sparse':>10}{'faster':>9}")
    for row in rows:
        times = f"{row['dense_ms']:>10.3f}{row['sparse_ms']:>10.3f}{row['speedup']:>8.2f}×"
        typer.echo(f"  {row['layer']!s:<28}{times}")
