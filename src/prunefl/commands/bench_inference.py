"""`prunefl bench inference`: how long a pruned network takes to classify, beside the dense one."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from prunefl.config.networks import NETWORKS
from prunefl.system.errors import PruneFLError


def inference(
    run: Annotated[
        Path | None,
        typer.Argument(help="a run's folder or model.safetensors: time that model, as it is pruned"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help=f"one of {', '.join(NETWORKS)}, with random masks [default: conv2]")
    ] = None,
    density: Annotated[
        list[float] | None,
        typer.Option(help="share of the weights that live; may be repeated [default: six, 1 to 0.02]"),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="samples that are classified at once")] = 200,
    repeats: Annotated[int, typer.Option(min=1, help="repetitions, of which the best counts")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="threads to compute with")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")] = False,
) -> None:
    """Time the classification of 200 samples against dense torch: at several densities, or by a run's model.

    Examples:
      prunefl bench inference --model conv2 --density 0.1 --threads 2
      prunefl bench inference runs/demo/prunefl-fisher
    """
    from prunefl.local.torch_backend.threads import set_threads
    from prunefl.measure.bench.inference import measure, measure_run

    if run is not None and (model or density):
        raise PruneFLError("RUN says its model and density itself; leave --model and --density out")
    set_threads(threads)
    if run is not None:
        about, timing = measure_run(run, samples, repeats)
        name, timings = about.model, [timing]
    else:
        name = model or "conv2"
        timings = measure(name, density or (1.0, 0.5, 0.2, 0.1, 0.05, 0.02), samples, repeats)
    if as_json:
        told = {"model": name, "samples": samples, "threads": threads}
        print(json.dumps(told | {"timings": [asdict(timing) for timing in timings]}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("density", "pruned, ms", "dense, ms", "times faster")
    for t in timings:
        row = (1e3 * t.sparse_seconds, 1e3 * t.dense_seconds, t.dense_seconds / t.sparse_seconds)
        table.add_row(f"{t.density:.3g}", *[f"{value:.2f}" for value in row])
    Console().print(f"{samples} samples through {name}, {threads} thread{'s' if threads > 1 else ''}")
    Console().print(table)
