"""`prunefl bench inference`: how long a pruned network takes to classify, beside the dense one."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def inference(
    model: Annotated[
        str, typer.Option(help="conv2, vgg11, resnet18, mobilenetv3_small or lenet300100")
    ] = "conv2",
    density: Annotated[
        list[float] | None, typer.Option(help="fraction of live weights; may be given several times")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="samples in the batch")] = 200,
    repeats: Annotated[int, typer.Option(min=1, help="repetitions, of which the best counts")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="threads to compute with")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Time the classification of 200 samples at several densities against dense torch.

    Example: prunefl bench inference --model conv2 --density 0.1 --density 0.02 --threads 2
    """
    from prunefl.local.torch_backend.threads import set_threads
    from prunefl.measure.bench.inference import measure

    set_threads(threads)
    timings = measure(model, density or (1.0, 0.5, 0.2, 0.1, 0.05, 0.02), samples, repeats)
    if as_json:
        about = {"model": model, "samples": samples, "threads": threads}
        print(json.dumps(about | {"timings": [asdict(timing) for timing in timings]}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("density", "pruned, ms", "dense, ms", "times faster")
    for t in timings:
        row = (1e3 * t.sparse_seconds, 1e3 * t.dense_seconds, t.dense_seconds / t.sparse_seconds)
        table.add_row(f"{t.density:g}", *[f"{value:.2f}" for value in row])
    Console().print(f"{samples} samples through {model}, {threads} thread{'s' if threads > 1 else ''}")
    Console().print(table)
